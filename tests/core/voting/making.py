"""Makes what voting tests are about: members, votes, proposals, and machines with a short way to talk to them.

Validators are numbered in ascending order of their peer ids; weights are 1. HEIGHT is such that validator n
proposes in round n, modulo their count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from p2pd.core.ids import (
    DecisionId,
    NetworkId,
    PublicKey,
    RevisionId,
    TermId,
    digest,
    peer_id,
)
from p2pd.core.signed import Scope, Signed, message_of
from p2pd.core.votes import NO_ROUND, Certificate, Reason, Step, Vote
from p2pd.core.voting.events import (
    BodyChecked,
    Built,
    Checked,
    Close,
    Defence,
    Effect,
    Event,
    Judgement,
    PeerHeard,
    ProposalSeen,
    Resumed,
    Send,
    VoteSeen,
)
from p2pd.core.voting.machine import Machine
from p2pd.core.voting.members import Member, Members
from p2pd.core.voting.proposals import PROPOSAL, Proposal
from p2pd.core.voting.quorums import VOTE
from p2pd.core.voting.rules import Setup
from p2pd.core.voting.timers import CheckTimes

T = TypeVar("T")

HEIGHT = 420
"""A multiple of 3, 4, 5 and 7."""
UNDECIDED = b"undecided"
A_CHOICES, B_CHOICES = b"choices a", b"choices b"
CHECK_LIMIT_S = 60.0


def scope_of(height: int) -> Scope:
    return Scope(NetworkId(b"n" * 32), TermId(b"t" * 32), "digits", RevisionId(b"r" * 32), height)


def value_of(choices: bytes) -> DecisionId:
    return DecisionId(digest("decision", choices))


def key_of(name: int) -> PublicKey:
    return PublicKey(digest("test key", name.to_bytes(2)))


@dataclass(frozen=True)
class Signer:
    """Signs so that different messages have different signatures; nobody verifies them here."""

    key: PublicKey

    def __call__(self, kind: str, scope: Scope, content: T) -> Signed[T]:
        signature = digest("test signature", message_of(kind, scope, self.key, content))
        return Signed(kind, scope, self.key, content, signature)


def weighted_members(weights: Sequence[int], quorum: int) -> Members:
    """Weights in ascending order of the peer ids."""
    keys = sorted((key_of(name) for name in range(len(weights))), key=peer_id)
    rows = [Member(peer_id(key), key, weight) for key, weight in zip(keys, weights, strict=True)]
    return Members.of(rows, quorum)


def unit_members(count: int, quorum: int) -> Members:
    return weighted_members([1] * count, quorum)


A, B, E = value_of(A_CHOICES), value_of(B_CHOICES), value_of(UNDECIDED)
SCOPE = scope_of(HEIGHT)


def vote(
    members: Members,
    who: int,
    step: Step,
    round_: int,
    value: DecisionId | None,
    just: int = NO_ROUND,
) -> Signed[Vote]:
    content = Vote(step, round_, value, just, ())
    return Signer(members.rows[who].key)(VOTE, SCOPE, content)


def prevote(
    members: Members, who: int, round_: int, value: DecisionId | None, just: int = NO_ROUND
) -> Signed[Vote]:
    return vote(members, who, Step.PREVOTE, round_, value, just)


def precommit(members: Members, who: int, round_: int, value: DecisionId | None) -> Signed[Vote]:
    return vote(members, who, Step.PRECOMMIT, round_, value)


def objection(members: Members, who: int, round_: int, *reasons: Reason) -> Signed[Vote]:
    content = Vote(Step.PREVOTE, round_, None, NO_ROUND, reasons)
    return Signer(members.rows[who].key)(VOTE, SCOPE, content)


def proposal(
    members: Members,
    round_: int,
    choices: bytes,
    pol: int = NO_ROUND,
    quorum: tuple[Signed[Vote], ...] = (),
) -> Signed[Proposal]:
    """By the proposer of the round."""
    key = members.proposer(HEIGHT, round_).key
    return Signer(key)(PROPOSAL, SCOPE, Proposal(round_, pol, choices, quorum))


def certificate(members: Members, value: DecisionId, round_: int, *who: int) -> Certificate:
    """By those validators, none of whose prevotes rests on an earlier round."""
    return Certificate(
        value,
        round_,
        tuple(precommit(members, each, round_, value) for each in who),
        tuple(prevote(members, each, round_, value) for each in who),
    )


@dataclass
class Bench:
    """One machine among members whose messages the test makes up."""

    members: Members
    who: int | None
    now_s: float = 100.0
    off: frozenset[Defence] = frozenset()
    stored: bytes | None = None

    def __post_init__(self) -> None:
        self.checks = CheckTimes(CHECK_LIMIT_S)
        me = None if self.who is None else self.members.rows[self.who].key
        self.machine = self.start(me, self.stored)

    def start(self, me: PublicKey | None, stored: bytes | None) -> Machine:
        setup = Setup(
            members=self.members,
            scope=SCOPE,
            me=me,
            sign=Signer(me or PublicKey(bytes(32))),
            checks=self.checks,
            undecided=UNDECIDED,
            defences_off=self.off,
        )
        return Machine(setup, stored)

    def tell(self, event: Event) -> list[Effect]:
        """Its own messages come back to it once they are durable, as in a node."""
        effects = self.machine.handle(event, self.now_s)
        return effects + self.echo(effects)

    def echo(self, effects: list[Effect]) -> list[Effect]:
        return self.hear(*(effect.message for effect in effects if isinstance(effect, Send)))

    def close(self) -> list[Effect]:
        return self.tell(Close())

    def resume(self) -> list[Effect]:
        """All the others are there, and say what they hold."""
        effects = self.tell(Resumed())
        for member in self.members.rows:
            effects += self.tell(PeerHeard(member.peer))
        return effects

    def hear(self, *messages: Signed[Vote] | Signed[Proposal]) -> list[Effect]:
        effects = []
        for message in messages:
            if isinstance(message.content, Vote):
                effects += self.tell(VoteSeen(message))
            else:
                effects += self.tell(ProposalSeen(message))
        return effects

    def prevotes(
        self, round_: int, value: DecisionId | None, *who: int, just: int = NO_ROUND
    ) -> list[Effect]:
        return self.hear(*(prevote(self.members, each, round_, value, just) for each in who))

    def precommits(self, round_: int, value: DecisionId | None, *who: int) -> list[Effect]:
        return self.hear(*(precommit(self.members, each, round_, value) for each in who))

    def built(self, round_: int, choices: bytes) -> list[Effect]:
        return self.tell(Built(round_, choices))

    def checked(
        self,
        choices: bytes,
        judgement: Judgement = Judgement.ACCEPT,
        *reasons: Reason,
        objective: bool = True,
    ) -> list[Effect]:
        event = Checked(choices, value_of(choices), objective, judgement, reasons)
        return self.tell(event)

    def fetched(self, choices: bytes, *, objective: bool = True) -> list[Effect]:
        return self.tell(BodyChecked(value_of(choices), choices, objective))

    def wait(self, duration_s: float) -> list[Effect]:
        """Lets time pass, and every timer act at its time."""
        end_s = self.now_s + duration_s
        effects = []
        while (deadline_s := self.machine.next_deadline_s()) is not None and deadline_s <= end_s:
            self.now_s = deadline_s
            acted = self.machine.tick(self.now_s)
            effects += acted + self.echo(acted)
            after_s = self.machine.next_deadline_s()
            assert after_s is None or after_s > self.now_s
        self.now_s = end_s
        return effects


def sent_votes(effects: list[Effect]) -> list[Vote]:
    """What a validator said: proposals left out."""
    contents = [effect.message.content for effect in effects if isinstance(effect, Send)]
    return [content for content in contents if isinstance(content, Vote)]


def sent_proposals(effects: list[Effect]) -> list[Proposal]:
    contents = [effect.message.content for effect in effects if isinstance(effect, Send)]
    return [content for content in contents if isinstance(content, Proposal)]


def prevoted(round_: int, value: DecisionId | None, just: int = NO_ROUND, *reasons: Reason) -> Vote:
    return Vote(Step.PREVOTE, round_, value, just, reasons)


def precommitted(round_: int, value: DecisionId | None) -> Vote:
    return Vote(Step.PRECOMMIT, round_, value, NO_ROUND, ())


FOUR = unit_members(4, 3)


def at_prevote(who: int = 2) -> Bench:
    """Among four, having prevoted A in round 0, and not its proposer."""
    bench = Bench(FOUR, who)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    assert sent_votes(bench.checked(A_CHOICES)) == [prevoted(0, A)]
    return bench


def locked_on_a(who: int = 2) -> Bench:
    """Among four, having precommitted A in round 0."""
    bench = at_prevote(who)
    others = [each for each in range(4) if each != who]
    assert sent_votes(bench.prevotes(0, A, *others[:2])) == [precommitted(0, A)]
    return bench


def into_round(bench: Bench, round_: int) -> None:
    """By nil votes of two others."""
    others = [each for each in range(4) if each != bench.who][:2]
    bench.precommits(round_, None, *others)
    assert bench.machine.view().round == round_
