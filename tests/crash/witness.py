"""Everything that validators ever said, from the wire and from the ledgers of the dead, and what of it contradicts."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from p2pd.core.decision import Decision, Outcome, Record
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId, PublicKey, short
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.talk import Objects, load_talk
from p2pd.core.votes import Step, Vote
from p2pd.core.voting.durable import Memory
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import Verdict
from p2pd.errors import RemoteError
from p2pd.node.chronicle import HEIGHT_BYTES
from p2pd.ports import Ledger, Link, Table
from p2pd.wire.envelope import load

Place = tuple[PublicKey, int, int, int]
"""Author, height, round, step; a proposal has the step PROPOSE."""


@dataclass
class Witness:
    """Port LinkHandler of a peer that is told what validators say."""

    setting: Setting
    said: dict[Place, dict[bytes, Signed[Any]]] = field(default_factory=dict)
    sources: Counter[str] = field(default_factory=Counter)
    """How many votes and proposals were new, by where they were seen."""

    def connected(self, link: Link) -> None: ...

    def disconnected(self, link: Link, why: str) -> None: ...

    def received(self, peer: PeerId, message: bytes) -> None:
        talk = load_talk(message)
        if isinstance(talk, Objects):
            for envelope in talk.envelopes:
                self.take(load(envelope, self.setting.genesis.network), "wire")

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        raise RemoteError("nothing is served here")

    def take(self, signed: Signed[Any], source: str) -> None:
        content = signed.content
        if isinstance(content, Vote):
            step = content.step
        elif isinstance(content, Proposal):
            step = Step.PROPOSE
        else:
            return
        place = (signed.author, signed.scope.height, content.round, int(step))
        bodies = self.said.setdefault(place, {})
        if signed.id not in bodies:
            bodies[signed.id] = signed
            self.sources[source] += 1

    def read(self, ledger: Ledger) -> None:
        """The votes that a validator's ledger remembers of open heights."""
        revision = self.setting.revision.id
        for key, state in ledger.scan(Table.VOTING, revision):
            height = int.from_bytes(key[len(revision) :][:HEIGHT_BYTES])
            memory = Memory.load(self.setting.scope(height), state)
            for vote in memory.votes():
                self.take(vote, "ledgers")
            for proposal in memory.proposals():
                self.take(proposal, "ledgers")

    def certified(self, record: Record) -> None:
        if record.certificate is not None:
            for vote in (*record.certificate.prevotes, *record.certificate.precommits):
                self.take(vote, "certificates")

    def contradictions(self) -> list[str]:
        """Two bodies of one place; a vote against one's lock that no quorum justifies."""
        found = [
            f"{_name(place)} said {len(bodies)} things"
            for place, bodies in self.said.items()
            if len(bodies) > 1
        ]
        votes = [(p, s.content) for p, bodies in self.said.items() for s in bodies.values()]
        locks = [(p, v) for p, v in votes if p[3] == Step.PRECOMMIT and v.value is not None]
        by_height: dict[tuple[PublicKey, int], list[Vote]] = {}
        for place, vote in votes:
            if place[3] == Step.PREVOTE and vote.value is not None:
                by_height.setdefault(place[:2], []).append(vote)
        return found + [
            f"{_name(place)} voted against its lock in round {vote.round}"
            for place, lock in locks
            for vote in by_height.get(place[:2], [])
            if vote.round > lock.round and vote.value != lock.value and vote.just < lock.round
        ]


def _name(place: Place) -> str:
    author, height, round_, step = place
    return f"{short(author)} at height {height}, round {round_}, {Step(step).name.lower()}"


def counted_twice(chain: list[Decision]) -> list[str]:
    """Updates that two decisions accepted, and microshards that count more than once in an epoch."""
    updates: Counter[bytes] = Counter()
    shards: Counter[tuple[int, int]] = Counter()
    for before, decision in pairwise(chain):
        if not decision.choices or decision.header.outcome is not Outcome.PROMOTED:
            continue
        epoch = before.state.progress.epoch
        for candidate in decode(Choices, decision.choices).cohort:
            lease = before.state.plan.lease_of(candidate.update.signer)
            if candidate.verdict is Verdict.ACCEPTED and lease is not None:
                updates[candidate.update.id] += 1
                shards.update((epoch, shard) for shard in lease.shards)
    return [
        *(f"update {short(one)} counts {n} times" for one, n in updates.items() if n > 1),
        *(f"microshard {s} of epoch {e} counts {n} times" for (e, s), n in shards.items() if n > 1),
    ]


def forks(chains: dict[str, list[Decision]]) -> list[str]:
    """Heights at which two nodes have two decisions."""
    first: dict[int, tuple[str, Decision]] = {}
    found = []
    for name, chain in chains.items():
        for decision in chain:
            other, known = first.setdefault(decision.height, (name, decision))
            if known.id != decision.id:
                found.append(f"{name} and {other} have two decisions at height {decision.height}")
    return found
