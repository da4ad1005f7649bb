"""When a height closes, and who proposes what. Validator n proposes in round n."""

from p2pd.core.votes import NO_ROUND, Reason, ReasonKind
from p2pd.core.voting.events import (
    Build,
    Check,
    Closed,
    Persist,
    RoundStarted,
    Send,
)
from p2pd.core.voting.rules import SLOW
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    UNDECIDED,
    A,
    Bench,
    into_round,
    locked_on_a,
    prevoted,
    proposal,
    sent_proposals,
    sent_votes,
    unit_members,
)

THREE = unit_members(3, 2)
SLOW_PREVOTE = SLOW.reasons
CANARY = Reason(ReasonKind.CANARY, b"c" * 32, 0)


def test_nothing_happens_before_the_height_closes() -> None:
    bench = Bench(FOUR, 1)
    assert bench.hear(proposal(FOUR, 0, A_CHOICES)) == []
    assert bench.machine.next_deadline_s() is None


def test_the_proposer_asks_for_choices_and_sends_them() -> None:
    bench = Bench(FOUR, 0)
    assert bench.close() == [RoundStarted(0), Build(0)]
    effects = bench.built(0, A_CHOICES)
    assert [type(effect) for effect in effects] == [Persist, Send, Check]
    assert [content.choices for content in sent_proposals(effects)] == [A_CHOICES]
    assert bench.built(0, B_CHOICES) == []


def test_choices_built_for_an_earlier_round_are_not_proposed() -> None:
    bench = Bench(FOUR, 0)
    bench.close()
    into_round(bench, 4)
    assert bench.built(0, A_CHOICES) == []


def test_a_proposal_held_before_the_close_is_checked_at_the_close() -> None:
    bench = Bench(FOUR, 1)
    held = proposal(FOUR, 0, A_CHOICES)
    bench.hear(held)
    assert bench.close() == [RoundStarted(0), Check(A_CHOICES, held)]


def test_messages_of_others_close_the_height_and_the_first_proposers_do_not() -> None:
    bench = Bench(FOUR, 1)
    assert bench.prevotes(0, A, 0, 2) == []
    assert bench.prevotes(0, None, 3) == [Closed(), RoundStarted(0)]


def test_a_round_heard_from_enough_weight_is_started_and_closes_the_height() -> None:
    bench = Bench(FOUR, 1)
    bench.prevotes(6, None, 0)
    assert bench.prevotes(6, A, 3) == [Closed(), RoundStarted(6)]


def test_rounds_are_not_started_by_messages_spread_over_several() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    bench.prevotes(3, None, 0)
    bench.prevotes(4, None, 2)
    assert bench.machine.view().round == 0


def test_a_valid_decision_is_proposed_again_with_its_quorum() -> None:
    bench = locked_on_a(who=1)
    bench.precommits(0, None, 0, 2)
    effects = bench.wait(1.0)
    (again,) = sent_proposals(effects)
    assert (again.round, again.pol, again.choices) == (1, 0, A_CHOICES)
    assert {signed.content.value for signed in again.quorum} == {A}
    assert len(again.quorum) == FOUR.quorum
    # Its own check is known: it prevotes at once, justified by round 0.
    assert sent_votes(effects) == [prevoted(1, A, 0)]


def test_from_round_f_on_a_proposer_without_a_valid_decision_proposes_undecided() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    bench.prevotes(6, None, 0)
    (undecided,) = sent_proposals(bench.prevotes(6, None, 1))
    assert (undecided.choices, undecided.pol) == (UNDECIDED, NO_ROUND)
