"""Liars are named, honest validators never: the witness says where it is otherwise."""

from dataclasses import dataclass, field, replace
from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.sim.witness import NAMED_WITHIN, Witness
from p2pd.wire.envelope import seal
from tests.core.builders import SETTING, VALIDATORS, running

A, B = (DecisionId(bytes([n]) * 32) for n in (1, 2))
FIRST = running()


def vote(step: Step, round_: int, value: DecisionId | None, just: int = NO_ROUND) -> Signed[Vote]:
    return seal(VALIDATORS[0], "vote", SETTING.scope(2), Vote(step, round_, value, just, ()))


@dataclass
class Look:
    names: dict[PeerId, str] = field(default_factory=dict)
    said: list[tuple[str, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.witness = Witness(self.note, self.names)

    def note(self, invariant: str, height: int, what: str) -> None:
        self.said.append((invariant, height, what))

    def sent(self, *votes: Signed[Vote]) -> list[tuple[str, int, str]]:
        for one in votes:
            self.witness.on_sent(one)
        return self.said


def at(height: int, **state: Any) -> Decision:
    header = replace(FIRST.header, height=height)
    return replace(FIRST, header=header, state=replace(FIRST.state, **state))


def test_i01_an_honest_validator_that_leaves_its_lock_is_seen() -> None:
    look = Look({VALIDATORS[0].peer: "validator1"})
    votes = [vote(Step.PRECOMMIT, 1, A), vote(Step.PREVOTE, 3, B, 0)]
    left = [("I1", 2, "validator1 left its lock of round 1 in round 3")]
    assert look.sent(*votes) == left
    assert Look(look.names).sent(*reversed(votes)) == left


def test_a_lock_may_be_left_with_a_quorum_since_and_for_nothing() -> None:
    lock = vote(Step.PRECOMMIT, 1, A)
    assert Look().sent(lock, vote(Step.PREVOTE, 3, B, 1)) == []
    assert Look().sent(lock, vote(Step.PREVOTE, 3, None)) == []
    assert Look().sent(lock, vote(Step.PREVOTE, 1, B), vote(Step.PREVOTE, 3, A)) == []


def test_i01_an_honest_validator_that_is_named_is_seen() -> None:
    look = Look({VALIDATORS[0].peer: "validator1"})
    look.witness.on_decision(at(3, pending=(VALIDATORS[0].peer, VALIDATORS[1].peer)))
    assert look.said == [("I1", 3, "validator1 is honest, and was named as a liar")]


def test_i01_a_liar_that_is_not_named_in_time_is_seen() -> None:
    look, peer = Look(), VALIDATORS[0].peer
    look.witness.on_heard("validator2", vote(Step.PREVOTE, 0, A))
    look.witness.on_heard("validator3", vote(Step.PREVOTE, 0, B))
    look.witness.on_heard("validator2", vote(Step.PRECOMMIT, 0, B))
    look.witness.on_decision(at(2 + NAMED_WITHIN))
    assert look.said == []  # nobody heard both
    look.witness.on_heard("validator2", vote(Step.PREVOTE, 0, None))
    look.witness.on_decision(at(2 + NAMED_WITHIN, suspended=(peer,)))
    assert look.said == []
    look.witness.on_decision(at(2 + NAMED_WITHIN))
    assert look.said == [("I1", 10, "a liar caught at height 2 has not been named")]
