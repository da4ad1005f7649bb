"""Lookahead from plan to decision: what may be late, what it weighs, and that nothing counts twice."""

from dataclasses import replace
from typing import Any

import pytest

from p2pd.core.chain import check_record
from p2pd.core.checking import check_choices
from p2pd.core.decision import Decision, open_plans
from p2pd.core.derive import UNDECIDED, derive, merge_job
from p2pd.core.encoding import encode
from p2pd.core.gates import gate
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.leases import find_lease
from p2pd.core.messages import Candidate, ChoiceKind, Choices, Update
from p2pd.core.pool import Admission, Pool
from p2pd.core.signed import Signed
from p2pd.core.votes import ReasonKind
from p2pd.core.window import Entry, Fetch, Window
from p2pd.core.work import FULL, Verdict
from p2pd.errors import RemoteError
from tests.core.builders import (
    TRAINERS,
    all_present,
    choices,
    follow,
    record,
    release,
    running,
    setting_of,
    update,
)

AHEAD = setting_of(lookahead=1)
FAST, SLOW = TRAINERS[0], TRAINERS[1]


def step(previous: Decision, *cohort: Any, setting: Any = AHEAD, **more: Any) -> Decision:
    here = all_present(previous, setting=setting)
    return follow(previous, choices(previous, cohort, here, **more), setting)


def mine(previous: Decision, who: Any, **changes: Any) -> Signed[Update]:
    return update(previous, who, AHEAD, **changes)


FIRST = running(setting=AHEAD)
LATE = mine(FIRST, SLOW)
SECOND = step(FIRST, mine(FIRST, FAST))
"""Nothing was heard of the slow one."""
THIRD = step(SECOND, mine(SECOND, FAST), LATE)


def row(decision: Decision, who: Any) -> Any:
    return next((one for one in decision.state.standing if one.peer == who.peer), None)


def test_i07_a_late_update_counts_in_the_window_after_its_own() -> None:
    assert SECOND.state.late is not None
    assert [lease.peer for lease in SECOND.state.late.plan.roster] == [SLOW.peer]
    assert THIRD.state.progress.samples == 3 * 20
    assert (
        THIRD.state.late is not None
    )  # of the slow one nothing was heard in its next window, either
    assert THIRD.state.late.dealt == SECOND.id
    check_record(AHEAD, SECOND, record(THIRD, AHEAD), choices_of(THIRD))


def choices_of(decision: Decision) -> Choices:
    late, now = LATE, mine(SECOND, FAST)
    found = choices(SECOND, [late, now], all_present(SECOND, setting=AHEAD))
    assert encode(found) == decision.choices
    return found


def test_i07_an_update_is_decided_once() -> None:
    for previous in (THIRD, step(SECOND, mine(SECOND, FAST))):
        again = choices(previous, [LATE])
        with pytest.raises(RemoteError, match="update for"):
            check_choices(AHEAD, previous, again)
        assert (
            follow(previous, again, AHEAD).state.progress.samples == previous.state.progress.samples
        )


def test_i07_two_updates_for_one_lease_do_not_both_count() -> None:
    other = mine(FIRST, SLOW, steps=2)
    with pytest.raises(RemoteError, match="trainers of a cohort"):
        check_choices(AHEAD, SECOND, choices(SECOND, [LATE, other]))


def test_one_trainer_may_have_a_late_update_and_one_in_time() -> None:
    both = step(SECOND, LATE, mine(SECOND, SLOW))
    assert both.state.progress.samples == 3 * 20
    # Of the fast one nothing was heard this time: now its lease may be late.
    assert both.state.late is not None
    assert [lease.peer for lease in both.state.late.plan.roster] == [FAST.peer]


def test_i07_what_was_kept_voids_all_updates() -> None:
    blocked = step(FIRST, mine(FIRST, FAST), kind=ChoiceKind.BLOCKED)
    undecided = derive(AHEAD, SECOND, UNDECIDED, encode(UNDECIDED), None)
    for kept in (blocked, undecided):
        assert kept.state.late is None
        with pytest.raises(RemoteError, match="update for"):
            check_choices(AHEAD, kept, choices(kept, [LATE]))


def test_i07_what_was_rejected_in_time_has_no_second_chance() -> None:
    bad = Candidate(LATE, Verdict.NONFINITE, FULL)
    decided = step(FIRST, bad, mine(FIRST, FAST))
    assert decided.state.late is None
    assert find_lease(LATE, decided) is None


def test_without_lookahead_nothing_is_late() -> None:
    plain = setting_of()
    first = running(setting=plain)
    second = step(first, update(first, FAST, plain), setting=plain)
    assert second.state.late is None
    with pytest.raises(RemoteError, match="update for"):
        check_choices(plain, second, choices(second, [update(first, SLOW, plain)]))


def test_standing_waits_until_a_lease_is_over_and_lateness_is_no_reason_for_more() -> None:
    assert row(SECOND, SLOW) is None
    before, after = row(SECOND, FAST), row(THIRD, SLOW)
    assert after.delivered == 1
    assert after.missed == 0
    assert after.budget_shards < before.budget_shards
    silent = step(SECOND, mine(SECOND, SLOW))
    assert row(silent, FAST).missed == 0  # it may still come
    over = step(silent, mine(silent, SLOW))
    assert row(over, FAST).missed == 1


def test_a_reserved_lease_may_have_been_started_from_the_head_before() -> None:
    plan = SECOND.state.plan
    assert plan.earlier == (FIRST.head,)
    for base, found in (
        (plan.base, Verdict.ACCEPTED),
        (FIRST.head, Verdict.ACCEPTED),
        (ArtifactId(bytes(32)), Verdict.BASE),
    ):
        signed = mine(SECOND, FAST, base=base)
        assert gate(AHEAD, signed, SECOND) is found
    job = merge_job(AHEAD, SECOND, choices(SECOND, [mine(SECOND, FAST, base=FIRST.head)]).cohort)
    assert job is not None
    assert [one.base for one in job.inputs] == [FIRST.head]
    plain = merge_job(AHEAD, SECOND, choices(SECOND, [mine(SECOND, FAST)]).cohort)
    assert plain is not None
    assert [one.base for one in plain.inputs] == [None]


def test_i06_the_base_that_an_update_started_from_is_part_of_what_is_merged() -> None:
    jobs = [
        merge_job(AHEAD, SECOND, choices(SECOND, [mine(SECOND, FAST, base=base)]).cohort)
        for base in (SECOND.head, FIRST.head)
    ]
    assert jobs[0] != jobs[1]


def test_two_heads_back_is_too_far() -> None:
    third = step(SECOND, mine(SECOND, FAST))
    assert FIRST.head not in (third.state.plan.base, *third.state.plan.earlier)


def test_a_late_update_is_taken_in_while_its_lease_is_open_and_dropped_in_silence_after() -> None:
    pool = Pool(AHEAD, FIRST)
    early = mine(FIRST, FAST)
    assert pool.admit(early) is Admission.NEW
    pool.advance(SECOND)
    assert early.id not in pool.held
    assert pool.admit(LATE) is Admission.NEW
    assert pool.admit(mine(FIRST, FAST, steps=2)) is Admission.LATE
    assert pool.admit(release(FIRST, SLOW, AHEAD)) is Admission.LATE
    pool.advance(THIRD)
    assert LATE.id not in pool.held
    assert pool.admit(LATE) is Admission.LATE


def test_what_came_before_the_decision_is_still_held_after_it() -> None:
    pool = Pool(AHEAD, FIRST)
    assert pool.admit(LATE) is Admission.NEW
    pool.advance(SECOND)
    assert LATE.id in pool.held


def test_a_window_takes_over_what_may_still_be_decided_and_proposes_it() -> None:
    first = Window(AHEAD, FIRST, 0.0)
    for signed in (LATE, mine(FIRST, FAST)):
        first.entries[UpdateId(signed.id)] = entry = _entry(signed)
        first.note_verdict(entry, Verdict.ACCEPTED, "", 1.0)
    second = Window.after(first, AHEAD, SECOND, 2.0)
    assert set(second.entries) == {UpdateId(LATE.id)}
    # It settles no lease of the new window, which therefore stays open.
    assert second.closes_s() == 2.0 + AHEAD.revision.schedule.deadline_ms / 1000
    now = mine(SECOND, SLOW)
    second.entries[UpdateId(now.id)] = entry = _entry(now)
    second.note_verdict(entry, Verdict.ACCEPTED, "", 3.0)
    cohort = second.candidates(frozenset())
    assert {candidate.update.id for candidate in cohort} == {LATE.id, now.id}
    partial = replace(choices(SECOND, [now]), presence=())
    omitted = second.left_out(partial, 100.0)
    assert [(one.kind, one.subject) for one in omitted] == [(ReasonKind.OMITTED, LATE.id)]


def _entry(signed: Signed[Update]) -> Any:
    return Entry(signed, None, Fetch.HERE)


def test_the_open_plans_are_named_by_who_dealt_them() -> None:
    assert [dealt for dealt, _ in open_plans(FIRST)] == [FIRST.id]
    assert [dealt for dealt, _ in open_plans(SECOND)] == [SECOND.id, FIRST.id]
