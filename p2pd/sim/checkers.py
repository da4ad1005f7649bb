"""What must hold, looked at after every step of a simulated fleet. Names are those of the design's invariants.

Counts are made here anew, from the signed genesis and the records themselves, not by the code under test.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from p2pd.core.decision import Decision, Outcome, Plan, Record
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, PublicKey, peer_id
from p2pd.core.messages import Choices
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.work import Inspection, Merged, MergeJob, Verdict
from p2pd.sim.bounds import Bounds, Burden
from p2pd.sim.charter import Charter
from p2pd.sim.sanctions import Sanctions
from p2pd.sim.windows import Windows
from p2pd.sim.witness import Witness
from p2pd.wire.signatures import verify

TENSOR_VERDICTS = frozenset({Verdict.LAYOUT, Verdict.SCHEMA, Verdict.NONFINITE})


@dataclass(frozen=True, slots=True)
class Violation:
    seed: int
    invariant: str
    height: int
    what: str


_Place = tuple[PublicKey, str, Scope, int, int]


def _place(signed: Signed[Any]) -> _Place:
    """Where a key may say one thing only."""
    content = signed.content
    step = content.step if isinstance(content, Vote) else 0
    return signed.author, signed.kind, signed.scope, step, content.round


def _stopped() -> float:
    """The clock of those who do not ask for the time."""
    return 0.0


@dataclass(slots=True)
class Checkers:
    seed: int
    setting: Setting
    names: dict[PeerId, str] = field(default_factory=dict)
    """Of honest nodes."""
    now_s: Callable[[], float] = _stopped
    chain: dict[int, Decision] = field(default_factory=dict)
    """By height, as the first to adopt did."""
    tips: dict[str, int] = field(default_factory=dict)
    """The highest decision that each node is known to have made durable."""
    sent: dict[_Place, object] = field(default_factory=dict)
    merges: dict[tuple[object, ...], Merged] = field(default_factory=dict)
    inspected: dict[tuple[str, ArtifactId], Verdict] = field(default_factory=dict)
    counted: dict[int, set[int]] = field(default_factory=dict)
    skipped: dict[int, list[int]] = field(default_factory=dict)
    """Microshards by epoch."""
    excused: set[PublicKey] = field(default_factory=set)
    """Keys of which nobody can say any more what they signed."""
    violations: list[Violation] = field(default_factory=list)
    label: str = ""
    """In front of what is said of a further revision."""
    witness: Witness = field(init=False)
    windows: Windows = field(init=False)
    sanctions: Sanctions = field(init=False)
    bounds: Bounds = field(init=False)
    charter: Charter = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.fail, self.names)
        self._begin()

    def _begin(self) -> None:
        self.windows = Windows(self.fail, self.setting, self.names, self.now_s)
        self.sanctions = Sanctions(self.fail, self.names)
        self.bounds = Bounds(self.fail)
        self.charter = Charter(self.fail, self.setting, self.names)

    def watch_with(self, other: "Checkers") -> None:
        """Of another revision on the same nodes: their math is watched once, and there is one list."""
        self.inspected, self.merges = other.inspected, other.merges
        self.violations = other.violations

    def fail(self, invariant: str, height: int, what: str) -> None:
        self.violations.append(Violation(self.seed, invariant, height, self.label + what))

    def excuse(self, name: str, key: PublicKey) -> None:
        """Another node has this one's key, or it was restored where it could not hear the others."""
        self.excused.add(key)
        self.names.pop(peer_id(key), None)

    def forget(self, name: str) -> None:
        """A node comes back with an old data directory: it may begin anywhere."""
        self.tips.pop(name, None)

    def on_sent(self, signed: Signed[Any]) -> None:
        """Called with each vote and proposal that leaves an honest node, before anyone else sees it."""
        content, height = signed.content, signed.scope.height
        if signed.author in self.excused:
            return
        if self.sent.setdefault(_place(signed), content) != content:
            step = content.step if isinstance(content, Vote) else 0
            what = f"{signed.kind} of round {content.round}, step {int(step)}, contradicts another"
            self.fail("I10", height, what)
        self.witness.on_sent(signed)
        previous = self.chain.get(height - 1)
        if previous is None or not self.charter.is_at_target(previous):
            self.windows.on_sent(signed)

    def on_heard(self, name: str, signed: Signed[Any], *, held: bool) -> None:
        """Called with each object that came to an honest validator; held: it belongs to the open height."""
        if held and signed.scope.revision != self.setting.revision.id:
            what = f"{name} takes a {signed.kind} of another revision"
            self.fail("I3", signed.scope.height, what)
        self.windows.on_heard(signed)
        if held:
            self.witness.on_heard(name, signed)
            self.sanctions.on_held(name, signed, self.chain.get(signed.scope.height - 1))

    def begin_term(self, setting: Setting) -> None:
        """A new term abandons all decisions; what was signed in the old one still binds there."""
        self.setting = setting
        self.chain.clear()
        self.tips.clear()
        self.counted.clear()
        self.skipped.clear()
        self._begin()

    def on_sending(self, name: str, signed: Signed[Any], stored: bytes) -> None:
        """Called with what the disk holds of a validator's own messages when one is about to leave."""
        if signed.encoded not in stored:
            what = f"{name} sends a {signed.kind} of round {signed.content.round} that it has not stored"
            self.fail("I10", signed.scope.height, what)

    def on_showing(self, name: str, signed: Signed[Any], stored: bytes) -> None:
        """As on_sending, when it is given to one who lacks it: what was out before may have been heard again."""
        known = self.sent.get(_place(signed)) == signed.content
        if not known and signed.author not in self.excused:
            self.on_sending(name, signed, stored)

    def on_opened(self, name: str, decision: Decision) -> None:
        """Called with the decision at which a started node takes up its chain."""
        if decision.height < self.tips.get(name, 0):
            self.fail(
                "I10", decision.height, f"{name} lost decision {self.tips[name]} by restarting"
            )
        # It may have died between making a decision durable and telling of it.
        self.tips[name] = decision.height
        self.windows.on_entered(name, decision)
        self.bounds.on_begun(name)
        self._agree(name, decision)

    def on_ended(self, name: str, previous: Decision, burden: Burden) -> None:
        """Called when a height ends for a node, with all that it held of it."""
        self.bounds.on_ended(name, previous, burden)

    def on_inspected(self, name: str, inspection: Inspection) -> None:
        self.inspected[name, inspection.artifact] = inspection.verdict

    def on_merged(self, name: str, job: MergeJob, merged: Merged) -> None:
        key = (job.base, job.outer, job.inputs, job.exponents)
        if self.merges.setdefault(key, merged) != merged:
            self.fail("I6", 0, f"{name} merged the same cohort to other bits")

    def on_adopted(self, name: str, record: Record) -> None:
        """Called with each decision that a node has made durable."""
        decision = record.decision
        height = decision.height
        if height != self.tips.get(name, height - 1) + 1:
            self.fail("I10", height, f"{name} adopts {height} upon {self.tips[name]}")
        self._note_adopted(name, record)

    def on_leapt(self, name: str, record: Record) -> None:
        """Called with a decision that a node which was far behind has made durable without those between."""
        height = record.decision.height
        if height <= self.tips.get(name, -1):
            self.fail("I10", height, f"{name} leaps to {height} from {self.tips[name]}")
        self._note_adopted(name, record)

    def _note_adopted(self, name: str, record: Record) -> None:
        decision, height = record.decision, record.decision.height
        self.tips[name] = height
        self.windows.on_entered(name, decision)
        self._agree(name, decision)
        previous = self.chain.get(height - 1)
        if previous is not None and previous.id == decision.header.previous:
            self._check_certificate(name, record, previous)

    def _agree(self, name: str, decision: Decision) -> None:
        height = decision.height
        new = height not in self.chain
        first = self.chain.setdefault(height, decision)
        if first.id != decision.id:
            self.fail("I1", height, f"{name} adopted another decision than the first to adopt")
        else:
            self.sanctions.on_agreed(name, decision, first)
        if first.head != decision.head:
            self.fail("I4", height, f"{name} holds another head than the first to adopt")
        elif first.header.outer != decision.header.outer:
            self.fail("I4", height, f"{name} holds another outer state than the first to adopt")
        if new and height - 1 in self.chain:
            self.witness.on_decision(decision)
            self.windows.on_decision(decision)
            self.sanctions.on_decision(self.chain[height - 1], decision)
            self.charter.on_decision(self.chain[height - 1], decision)
            self._check_work(self.chain[height - 1], decision)

    def _check_certificate(self, name: str, record: Record, previous: Decision) -> None:
        """I2: a quorum of the signed set said so, whatever anybody saw of it."""
        height, certificate = record.decision.height, record.certificate
        if certificate is None:
            self.fail("I2", height, f"{name} adopted what no certificate shows")
            return
        genesis, round_ = self.setting.genesis, certificate.round
        for step, votes in (
            (Step.PRECOMMIT, certificate.precommits),
            (Step.PREVOTE, _justified(certificate.prevotes, round_, self._weigh, genesis.quorum)),
        ):
            wanted = (step, round_, record.decision.id, height)
            weight = self._weigh(
                vote
                for vote in votes
                if (vote.content.step, vote.content.round, vote.content.value, vote.scope.height)
                == wanted
                and vote.scope.revision == self.setting.revision.id
                and vote.signer not in previous.state.suspended
                and verify(vote.author, vote.message, vote.signature)
            )
            if weight < genesis.quorum:
                what = (
                    f"{name} adopted on {step.name.lower()}s of weight {weight} of {genesis.quorum}"
                )
                self.fail("I2", height, what)
        self._check_verdicts(record.decision, (vote.signer for vote in certificate.precommits))

    def _weigh(self, votes: Iterable[Signed[Vote]]) -> int:
        signers = {vote.author for vote in votes}
        return sum(s.weight for s in self.setting.genesis.validators if s.key in signers)

    def _check_verdicts(self, decision: Decision, judges: Iterable[PeerId]) -> None:
        """I5: who precommits looked at the tensors; no trainer's word was taken for it."""
        names = [self.names[peer] for peer in judges if peer in self.names]
        for candidate in _cohort(decision):
            verdict = candidate.verdict
            if verdict is not Verdict.ACCEPTED and verdict not in TENSOR_VERDICTS:
                continue
            artifact = candidate.update.content.artifact
            for name in names:
                if self.inspected.get((name, artifact)) is not verdict:
                    what = f"{name} precommitted a verdict {verdict.name} that it had not found"
                    self.fail("I5", decision.height, what)

    def _check_work(self, previous: Decision, decision: Decision) -> None:
        """I7: claims fit the lease, no microshard counts twice in an epoch, none is forgotten."""
        epoch, plans = previous.state.progress.epoch, self._open_plans(previous)
        counted = self.counted.setdefault(epoch, set())
        skipped = self.skipped.setdefault(epoch, [])
        skipped += decision.state.skipped
        cohort = _cohort(decision) if decision.header.outcome is Outcome.PROMOTED else ()
        for candidate in cohort:
            if candidate.verdict is not Verdict.ACCEPTED:
                continue
            plan = plans.get(candidate.update.content.plan)
            lease = plan.lease_of(candidate.update.signer) if plan else None
            if lease is None or candidate.update.content.samples > lease.samples:
                self.fail("I7", decision.height, "an accepted update claims more than its lease")
                continue
            again = counted.intersection(lease.shards)
            if again:
                self.fail("I7", decision.height, f"microshards {sorted(again)} are counted twice")
            counted.update(lease.shards)
        if decision.state.progress.epoch == epoch:
            self._check_books(decision, counted, skipped)
        else:
            self._check_epoch(decision, counted, skipped)

    def _open_plans(self, previous: Decision) -> dict[DecisionId, Plan]:
        """With lookahead an update may come one window late, and never later."""
        plans = {previous.id: previous.state.plan}
        older = self.chain.get(previous.height - 1)
        if self.setting.revision.schedule.lookahead and older is not None:
            plans[older.id] = older.state.plan
        return plans

    def _check_books(self, decision: Decision, counted: set[int], skipped: list[int]) -> None:
        """What was dealt is counted, leased, waiting or skipped, and only one of these."""
        state = decision.state
        listed = [
            *counted,
            *skipped,
            *(entry.shard for entry in state.returned),
            *(s for lease in state.plan.roster for s in (*lease.shards, *lease.reserved)),
            *(s for lease in (state.late.plan.roster if state.late else ()) for s in lease.shards),
        ]
        if len(listed) != len(set(listed)) or len(listed) != state.progress.cursor:
            what = f"microshards: {state.progress.cursor} dealt, {len(set(listed))} known of"
            self.fail("I7", decision.height, what)

    def _check_epoch(self, decision: Decision, counted: set[int], skipped: list[int]) -> None:
        """An epoch is over: each microshard was counted, or a decision of it gave it up and said so."""
        listed = [*counted, *skipped]
        if sorted(listed) != list(range(self.setting.revision.data.shards)):
            missing = set(range(self.setting.revision.data.shards)) - set(listed)
            what = f"microshards {sorted(missing)} of the epoch are neither counted nor listed"
            self.fail("I7", decision.height, what)

    def on_end(self, tips: dict[str, Decision], *, stalled: str) -> None:
        """Liveness, and one lineage, a while after the last fault. stalled: why it came to no end, if so."""
        highest = max(tips.values(), key=lambda tip: tip.height)
        if stalled:
            self.fail("liveness", highest.height, f"{stalled}: {_heights(tips)}")
        for name, tip in sorted(tips.items()):
            first = self.chain.get(tip.height)
            if first is None or first.id != tip.id:
                self.fail("I2", tip.height, f"{name} ended on a lineage of its own")

    @property
    def decided(self) -> dict[int, DecisionId]:
        return {height: decision.id for height, decision in self.chain.items()}


def _cohort(decision: Decision) -> tuple[Any, ...]:
    return _cohort_in(decision.choices) if decision.choices else ()


@lru_cache(maxsize=16)
def _cohort_in(choices: bytes) -> tuple[Any, ...]:
    """Each node adopts the same ones."""
    return decode(Choices, choices).cohort


def _justified(
    prevotes: Iterable[Signed[Vote]],
    round_: int,
    weigh: Callable[[Iterable[Signed[Vote]]], int],
    quorum: int,
) -> list[Signed[Vote]]:
    """The prevotes of a round that rest on nothing, or on an earlier quorum which is there as well."""
    held = list(prevotes)
    return [
        vote
        for vote in held
        if vote.content.round == round_
        and (
            vote.content.just == NO_ROUND
            or weigh(_justified(held, vote.content.just, weigh, quorum)) >= quorum
        )
    ]


def _heights(tips: dict[str, Decision]) -> str:
    return ", ".join(f"{name} at {tip.height}" for name, tip in sorted(tips.items()))
