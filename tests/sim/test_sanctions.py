"""Suspension and quarantine hold everywhere, at once and for their time: the checker sees it where they do not."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from p2pd.core.decision import Decision, Standing
from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.messages import Candidate
from p2pd.core.signed import Signed
from p2pd.core.standing import QUARANTINE_HEIGHTS
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.work import FULL, Verdict
from p2pd.sim.sanctions import IN_A_ROW, Sanctions
from p2pd.wire.envelope import seal
from tests.core.builders import (
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    running,
    update,
)

FIRST = running(trainers=2)
GOOD, BAD = (TRAINERS[n].peer for n in range(2))
NAMES = {VALIDATORS[0].peer: "validator1", GOOD: "trainer1"}


def judged(previous: Decision, verdict: Verdict) -> Decision:
    """One trainer delivers, of the other one's update the verdict is given."""
    cohort = [
        Candidate(update(previous, TRAINERS[0]), Verdict.ACCEPTED, FULL),
        Candidate(update(previous, TRAINERS[1]), verdict, FULL),
    ]
    return follow(previous, choices(previous, cohort, all_present(previous)))


def altered(decision: Decision, **state: Any) -> Decision:
    return replace(decision, state=replace(decision.state, **state))


@dataclass
class Look:
    said: list[tuple[str, int, str]] = field(default_factory=list)
    sanctions: Sanctions = field(init=False)

    def __post_init__(self) -> None:
        self.sanctions = Sanctions(self.note, dict(NAMES))

    def note(self, invariant: str, height: int, what: str) -> None:
        assert invariant == "I11"
        self.said.append((invariant, height, what))

    @property
    def whats(self) -> list[str]:
        return [what for _, _, what in self.said]


def until(decision: Decision, peer: PeerId) -> int:
    return next(row.quarantined_until for row in decision.state.standing if row.peer == peer)


def three_times_bad() -> list[Decision]:
    chain = [FIRST]
    while len(chain) <= IN_A_ROW:
        chain.append(judged(chain[-1], Verdict.LAYOUT))
    return chain


def test_i11_a_trainer_that_earned_its_quarantine_and_serves_it_is_no_violation() -> None:
    look, chain = Look(), three_times_bad()
    assert until(chain[-1], BAD) == chain[-1].height + 1 + QUARANTINE_HEIGHTS
    while len(chain) < 6:
        last = chain[-1]
        mine = [Candidate(update(last, TRAINERS[0]), Verdict.ACCEPTED, FULL)]
        chain.append(follow(last, choices(last, mine, all_present(last, trainers=1))))
    for previous, decision in pairwise(chain):
        look.sanctions.on_decision(previous, decision)
        look.sanctions.on_agreed("validator1", decision, decision)
    assert look.said == []


def test_i11_a_quarantine_that_never_comes_is_seen() -> None:
    look, chain = Look(), three_times_bad()
    free = tuple(replace(row, quarantined_until=0) for row in chain[-1].state.standing)
    chain[-1] = altered(chain[-1], standing=free)
    for previous, decision in pairwise(chain):
        look.sanctions.on_decision(previous, decision)
    assert look.whats == ["a stranger or liar is not in quarantine after 3 misdeeds"]


def test_i11_a_quarantine_for_nothing_and_one_of_an_honest_node_are_seen() -> None:
    look, decision = Look(), judged(FIRST, Verdict.ACCEPTED)
    rows = tuple(replace(row, quarantined_until=9) for row in decision.state.standing)
    plan = replace(decision.state.plan, roster=())
    look.sanctions.on_decision(FIRST, altered(decision, standing=rows, plan=plan))
    assert sorted(look.whats) == [
        "a stranger or liar is in quarantine for nothing",
        "trainer1 is in quarantine for nothing",
    ]


def test_i11_who_leaves_quarantine_early_serves_in_it_or_has_its_work_counted_is_seen() -> None:
    look = Look()
    barred = (Standing(BAD, 6, 0, 0, 3, 0, FULL // 8, 9),)
    before = altered(FIRST, standing=barred)
    after = altered(judged(FIRST, Verdict.ACCEPTED), standing=barred)
    assert after.state.plan.lease_of(BAD) is not None
    look.sanctions.on_decision(before, after)
    assert look.whats == [
        "a stranger or liar is to serve, which it must not",
        "work of a stranger or liar, in quarantine, counts",
    ]
    look.said.clear()
    nobody = replace(after.state.plan, roster=())
    look.sanctions.on_decision(before, altered(FIRST, standing=(), plan=nobody))
    assert look.whats == ["a stranger or liar left its quarantine too early"]


@pytest.mark.parametrize("where", ["suspended", "pending"])
def test_i11_a_liar_that_is_forgotten_is_seen(where: str) -> None:
    look, liar = Look(), VALIDATORS[1].peer
    look.sanctions.on_decision(altered(FIRST, **{where: (liar,)}), judged(FIRST, Verdict.ACCEPTED))
    assert look.whats == ["a validator that was named is so no longer"]


def test_i11_a_suspended_reducer_that_serves_is_seen() -> None:
    look, decision = Look(), judged(FIRST, Verdict.ACCEPTED)
    plan = replace(decision.state.plan, reducers=(VALIDATORS[1].peer,))
    look.sanctions.on_decision(FIRST, altered(decision, suspended=(VALIDATORS[1].peer,), plan=plan))
    assert look.whats == ["a stranger or liar is to serve, which it must not"]


def vote(signer: int) -> Signed[Vote]:
    content = Vote(Step.PREVOTE, 0, DecisionId(bytes(32)), NO_ROUND, ())
    return seal(VALIDATORS[signer], "vote", SETTING.scope(FIRST.height + 1), content)


def test_i11_a_vote_of_a_suspended_validator_that_is_taken_is_seen() -> None:
    look, previous = Look(), altered(FIRST, suspended=(VALIDATORS[1].peer,))
    look.sanctions.on_held("validator1", vote(0), previous)
    look.sanctions.on_held("validator1", vote(1), None)  # nobody knows who is suspended there
    look.sanctions.on_held("validator1", update(FIRST, TRAINERS[0]), previous)
    assert look.said == []
    look.sanctions.on_held("validator1", vote(1), previous)
    assert look.whats == ["validator1 takes a vote of a suspended validator"]


def test_i11_a_node_with_a_record_of_its_own_is_seen() -> None:
    look, mine = Look(), altered(FIRST, pending=(VALIDATORS[1].peer,))
    look.sanctions.on_agreed("validator1", FIRST, altered(FIRST))
    assert look.said == []
    look.sanctions.on_agreed("validator1", mine, FIRST)
    assert look.whats == ["validator1 has another record of who is suspended or in quarantine"]
