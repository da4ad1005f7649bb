"""Locks, and how a round ends. Validator n proposes in round n."""

from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.voting.events import (
    FetchValue,
    Persist,
    RoundStarted,
    Send,
)
from p2pd.core.voting.rules import SLOW
from tests.core.voting.making import (
    A_CHOICES,
    FOUR,
    A,
    B,
    Bench,
    at_prevote,
    into_round,
    locked_on_a,
    precommitted,
    prevote,
    sent_votes,
    unit_members,
)

THREE = unit_members(3, 2)
SLOW_PREVOTE = SLOW.reasons
CANARY = Reason(ReasonKind.CANARY, b"c" * 32, 0)


def test_i10_every_vote_is_stored_before_it_is_sent() -> None:
    bench = locked_on_a()
    effects = bench.prevotes(0, B, 0)
    effects += bench.precommits(0, None, 0, 1) + bench.wait(1.0) + bench.wait(2.0)
    sends = [number for number, effect in enumerate(effects) if isinstance(effect, Send)]
    assert sends
    for number in sends:
        assert isinstance(effects[number - 1], Persist)


def test_a_quorum_of_prevotes_for_a_checked_value_locks_and_precommits_it() -> None:
    bench = locked_on_a()
    assert bench.machine.view().locked == (A, 0)
    assert bench.machine.view().valid == (A, 0)


def test_a_quorum_for_what_was_not_checked_is_fetched_from_its_voters() -> None:
    bench = Bench(FOUR, 3)
    bench.close()
    bench.wait(1.0)
    bench.prevotes(0, A, 0, 1)
    effects = bench.prevotes(0, A, 2)
    assert effects == [FetchValue(A, tuple(row.peer for row in FOUR.rows[:3]))]
    assert bench.prevotes(0, A, 2) == []
    assert sent_votes(bench.fetched(A_CHOICES)) == [precommitted(0, A)]


def test_an_objectively_wrong_value_is_never_precommitted() -> None:
    bench = Bench(FOUR, 3)
    bench.close()
    bench.wait(1.0)
    bench.prevotes(0, A, 0, 1, 2)
    assert bench.fetched(A_CHOICES, objective=False) == []
    assert bench.machine.view().locked is None


def test_after_a_nil_precommit_a_quorum_still_makes_valid_and_no_lock() -> None:
    bench = at_prevote()
    bench.prevotes(0, B, 0)
    assert sent_votes(bench.prevotes(0, None, 1)) == [precommitted(0, None)]
    bench.hear(prevote(FOUR, 0, 0, A))
    bench.prevotes(0, A, 3)
    assert bench.machine.view().valid == (A, 0)
    assert bench.machine.view().locked is None


def test_valid_follows_a_quorum_of_an_earlier_round() -> None:
    bench = at_prevote()
    into_round(bench, 2)
    bench.prevotes(0, A, 0, 1)
    assert bench.machine.view().valid == (A, 0)
    assert bench.machine.view().locked is None


def test_a_quorum_for_nil_is_a_precommit_for_nil() -> None:
    bench = at_prevote()
    assert sent_votes(bench.prevotes(0, None, 0, 1, 3)) == [precommitted(0, None)]


def test_split_prevotes_wait_while_the_missing_ones_could_make_a_quorum() -> None:
    bench = at_prevote()
    assert bench.prevotes(0, A, 0) == []
    assert bench.prevotes(0, None, 1) == []
    deadline_s = bench.machine.next_deadline_s()
    assert deadline_s == bench.now_s + 60.0
    assert sent_votes(bench.wait(60.0)) == [precommitted(0, None)]


def test_a_value_found_in_time_stops_the_wait_for_split_prevotes() -> None:
    bench = at_prevote()
    bench.prevotes(0, None, 0)
    bench.prevotes(0, A, 1)
    assert bench.machine.next_deadline_s() is not None
    assert sent_votes(bench.prevotes(0, A, 3)) == [precommitted(0, A)]
    assert bench.wait(1000.0) == []


def test_split_prevotes_that_nothing_can_save_are_a_precommit_for_nil_at_once() -> None:
    bench = at_prevote()
    bench.prevotes(0, None, 0)
    assert sent_votes(bench.prevotes(0, B, 1)) == [precommitted(0, None)]


def test_no_timer_runs_after_the_prevote_until_a_quorum_prevoted() -> None:
    bench = at_prevote()
    bench.prevotes(0, None, 0)
    assert bench.machine.next_deadline_s() is None


def test_a_quorum_of_any_precommits_starts_the_next_round_after_a_while() -> None:
    bench = locked_on_a()
    bench.precommits(0, None, 0)
    assert bench.machine.next_deadline_s() is None
    bench.precommits(0, B, 1)
    assert bench.wait(0.99) == []
    assert RoundStarted(1) in bench.wait(0.01)
