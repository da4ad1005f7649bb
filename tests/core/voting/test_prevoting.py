"""What a proposal is answered with. Validator n proposes in round n."""

import pytest

from p2pd.core.votes import MAX_REASONS, MAX_ROUND, NO_ROUND, Reason, ReasonKind, Vote
from p2pd.core.voting.events import (
    Check,
    Checked,
    Judgement,
    Persist,
    RoundStarted,
    Send,
)
from p2pd.core.voting.rules import SLOW
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    SCOPE,
    UNDECIDED,
    A,
    B,
    Bench,
    E,
    Signer,
    into_round,
    locked_on_a,
    precommitted,
    prevote,
    prevoted,
    proposal,
    sent_votes,
    unit_members,
)

THREE = unit_members(3, 2)
SLOW_PREVOTE = SLOW.reasons
CANARY = Reason(ReasonKind.CANARY, b"c" * 32, 0)


@pytest.mark.parametrize(
    ("judgement", "objective", "expected"),
    [
        (Judgement.ACCEPT, True, prevoted(0, A)),
        (Judgement.UNSURE, True, prevoted(0, A)),
        (Judgement.REJECT, True, prevoted(0, None, NO_ROUND, CANARY)),
        (Judgement.ACCEPT, False, prevoted(0, None, NO_ROUND, CANARY)),
    ],
)
def test_a_fresh_proposal_needs_both_kinds_of_check(
    judgement: Judgement, objective: bool, expected: Vote
) -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    effects = bench.checked(A_CHOICES, judgement, CANARY, objective=objective)
    assert sent_votes(effects) == [expected]
    assert [type(effect) for effect in effects] == [Persist, Send]


def test_no_more_reasons_are_sent_than_a_vote_may_have() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    (nil,) = sent_votes(bench.checked(A_CHOICES, Judgement.REJECT, *[CANARY] * 40))
    assert len(nil.reasons) == MAX_REASONS


def test_a_proposal_with_a_quorum_is_not_refused_for_a_judgement() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    into_round(bench, 1)
    quorum = tuple(prevote(FOUR, who, 0, A) for who in (0, 1, 3))
    bench.hear(proposal(FOUR, 1, A_CHOICES, 0, quorum))
    assert sent_votes(bench.checked(A_CHOICES, Judgement.REJECT, CANARY)) == [prevoted(1, A, 0)]


def test_a_quorum_for_another_decision_does_not_carry_a_proposal() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    into_round(bench, 1)
    quorum = tuple(prevote(FOUR, who, 0, A) for who in (0, 1, 3))
    bench.hear(proposal(FOUR, 1, B_CHOICES, 0, quorum))
    assert sent_votes(bench.checked(B_CHOICES)) == [prevoted(1, None)]


@pytest.mark.parametrize(("round_", "who"), [(5, 2), (6, 3)])
def test_undecided_may_be_proposed_afresh_exactly_from_round_f_on(round_: int, who: int) -> None:
    bench = Bench(FOUR, who)
    bench.close()
    bench.prevotes(round_, None, 0)
    bench.hear(proposal(FOUR, round_, UNDECIDED))
    votes = sent_votes(bench.checked(UNDECIDED))
    assert votes == [prevoted(round_, E if round_ >= FOUR.undecided_round else None)]


def test_from_round_f_on_nothing_else_may_be_proposed_afresh() -> None:
    bench = Bench(FOUR, 3)
    bench.close()
    bench.prevotes(6, None, 0)
    bench.hear(proposal(FOUR, 6, A_CHOICES))
    assert sent_votes(bench.checked(A_CHOICES)) == [prevoted(6, None)]


def test_a_lock_refuses_a_fresh_proposal_for_something_else() -> None:
    bench = locked_on_a()
    into_round(bench, 1)
    bench.hear(proposal(FOUR, 1, B_CHOICES))
    assert sent_votes(bench.checked(B_CHOICES)) == [prevoted(1, None)]


def test_a_fresh_proposal_for_what_is_locked_is_justified_by_the_lock() -> None:
    bench = locked_on_a()
    into_round(bench, 1)
    assert sent_votes(bench.hear(proposal(FOUR, 1, A_CHOICES))) == [prevoted(1, A, 0)]


def test_a_later_quorum_frees_from_the_lock() -> None:
    bench = locked_on_a()
    into_round(bench, 3)
    quorum = tuple(prevote(FOUR, who, 1, B) for who in (0, 1, 3))
    bench.hear(proposal(FOUR, 3, B_CHOICES, 1, quorum))
    assert sent_votes(bench.checked(B_CHOICES)) == [prevoted(3, B, 1)]


def test_a_quorum_of_the_very_round_of_the_lock_frees_from_it_too() -> None:
    bench = locked_on_a()
    into_round(bench, 1)
    quorum = tuple(prevote(FOUR, who, 0, B) for who in (0, 1, 3))
    bench.hear(proposal(FOUR, 1, B_CHOICES, 0, quorum))
    assert sent_votes(bench.checked(B_CHOICES)) == [prevoted(1, B, 0)]


def test_an_unbacked_proposal_is_dropped_and_no_timer_stops() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    into_round(bench, 1)
    deadline_s = bench.machine.next_deadline_s()
    short = tuple(prevote(FOUR, who, 0, A) for who in (0, 1))
    assert bench.hear(proposal(FOUR, 1, A_CHOICES, 0, short)) == []
    assert bench.machine.next_deadline_s() == deadline_s
    # The votes it carried are ordinary votes, but a dropped proposal brings none.
    good = proposal(FOUR, 1, B_CHOICES)
    assert bench.hear(good) == [Check(B_CHOICES, good)]


def test_a_proposal_by_anybody_else_is_dropped() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    right = proposal(FOUR, 0, A_CHOICES)
    forged = Signer(FOUR.rows[3].key)(right.kind, SCOPE, right.content)
    assert bench.hear(forged) == []


def test_no_proposal_in_time_is_a_prevote_for_nil() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    assert bench.wait(0.99) == []
    assert sent_votes(bench.wait(0.01)) == [prevoted(0, None, NO_ROUND, *SLOW_PREVOTE)]


def test_a_check_has_the_limit_until_eight_are_finished_and_then_thrice_the_longest() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    assert bench.machine.next_deadline_s() == bench.now_s + 60.0
    for duration_s in (1, 2, 3, 4, 5, 6, 7, 4):
        bench.checks.add(duration_s)
    fast = Bench(FOUR, 1)
    fast.checks = bench.checks
    fast.machine = fast.start(FOUR.rows[1].key, None)
    fast.close()
    fast.hear(proposal(FOUR, 0, A_CHOICES))
    assert sent_votes(fast.wait(21.0)) == [prevoted(0, None, NO_ROUND, *SLOW_PREVOTE)]


def test_checks_of_the_undecided_decision_are_not_measured() -> None:
    bench = Bench(FOUR, 3)
    bench.close()
    for _ in range(7):
        bench.checks.add(1.0)
    bench.prevotes(6, None, 0)
    bench.hear(proposal(FOUR, 6, UNDECIDED))
    bench.checked(UNDECIDED)
    assert bench.checks.timeout_s(0) == 60.0


def test_a_second_answer_to_a_check_is_not_measured_again() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    for _ in range(7):
        bench.checks.add(0.0)
    bench.checked(A_CHOICES)
    bench.wait(30.0)
    bench.checked(A_CHOICES)
    assert bench.checks.timeout_s(0) == 2.0


def test_a_check_that_outlives_its_timer_is_measured_and_kept() -> None:
    bench = Bench(FOUR, 1)
    for _ in range(8):
        bench.checks.add(1.0)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    bench.wait(50.0)
    assert bench.checked(A_CHOICES) == []
    assert bench.checks.timeout_s(0) == 60.0
    # Nobody else was heard, so that this is still the round; a quorum of prevotes now finds the value known.
    assert sent_votes(bench.prevotes(0, A, 0, 2, 3)) == [precommitted(0, A)]


UNFETCHABLE = Reason(ReasonKind.UNFETCHABLE, b"u" * 32, 0)


def not_derived(choices: bytes) -> Checked:
    return Checked(choices, None, False, Judgement.ACCEPT, (UNFETCHABLE,))


def test_what_cannot_be_fetched_refuses_a_fresh_proposal_and_says_so() -> None:
    bench = Bench(FOUR, 1)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    effects = bench.machine.handle(not_derived(A_CHOICES), bench.now_s)
    assert sent_votes(effects) == [prevoted(0, None, NO_ROUND, UNFETCHABLE)]


def test_what_could_not_be_fetched_is_tried_again_when_it_is_proposed_again() -> None:
    bench = Bench(FOUR, 3)
    bench.close()
    bench.hear(proposal(FOUR, 0, A_CHOICES))
    bench.machine.handle(not_derived(A_CHOICES), bench.now_s)
    into_round(bench, 1)
    again = proposal(FOUR, 1, A_CHOICES)
    assert bench.hear(again) == [Check(A_CHOICES, again)]
    assert sent_votes(bench.checked(A_CHOICES)) == [prevoted(1, A)]


def test_a_proposal_with_a_quorum_is_waited_for_while_it_cannot_be_fetched() -> None:
    bench = Bench(FOUR, 2)
    bench.close()
    into_round(bench, 1)
    quorum = tuple(prevote(FOUR, who, 0, A) for who in (0, 1, 3))
    bench.hear(proposal(FOUR, 1, A_CHOICES, 0, quorum))
    assert bench.machine.handle(not_derived(A_CHOICES), bench.now_s) == []
    assert sent_votes(bench.fetched(A_CHOICES)) == [prevoted(1, A, 0)]


def test_i09_a_round_beyond_all_reason_costs_nothing() -> None:
    bench = Bench(unit_members(3, 2), 2)
    bench.close()
    last = bench.hear(prevote(bench.members, 0, MAX_ROUND, None))
    assert RoundStarted(MAX_ROUND) in last
    bench.precommits(MAX_ROUND, None, 0, 1)
    bench.wait(100.0)
    assert bench.machine.view().round == MAX_ROUND
    with pytest.raises(ValueError, match="a round is from 0"):
        prevote(bench.members, 0, MAX_ROUND + 1, None)
