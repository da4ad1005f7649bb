"""Governance records on their way into decisions: who holds one brings it, and sees to it that others do."""

from dataclasses import replace

from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import Setting
from p2pd.core.governance import SignedGovernance
from p2pd.core.validator.events import RecordHeld
from p2pd.core.votes import Reason, ReasonKind
from tests.core.builders import SETTING, TRAINERS, VALIDATORS, beacon, choices, extension
from tests.core.test_governance import finished
from tests.core.validator.council import Chair, Council
from tests.core.validator.stage import (
    DEADLINE_S,
    FIRST,
    a_proposal,
    chair,
    council,
    reasons,
    updates,
)

SETTLE_S = SETTING.revision.schedule.settle_ms / 1000


def hold(one: Chair, record: SignedGovernance) -> None:
    one.give(RecordHeld(record))


def over() -> tuple[Setting, Decision, Council]:
    """Four validators of a run that has come to its end."""
    setting, last = finished()
    made = council(last, setting=setting)
    made.pass_time(2.0)
    return setting, last, made


def test_a_record_that_one_validator_holds_wakes_a_finished_run() -> None:
    setting, last, all_ = over()
    record = extension(setting=setting)
    for each in all_.chairs:
        hold(each, record)
    all_.pass_time(SETTLE_S + 1.0)
    for each in all_.chairs:
        (woken,) = each.adopted
        assert woken.state.governed.log == record.place
        assert woken.state.plan.state is PlanState.IDLE
        assert woken.head == last.head


def test_a_record_that_only_some_hold_comes_into_a_decision_all_the_same() -> None:
    setting, _, all_ = over()
    record = extension(setting=setting)
    for each in all_.chairs[:2]:
        hold(each, record)
    all_.pass_time(60.0)
    assert {each.decision.state.governed.log for each in all_.chairs} == {record.place}


def test_of_two_records_of_one_number_the_first_that_a_decision_takes_holds() -> None:
    setting, _, all_ = over()
    records = [extension(setting=setting, end_heads=heads) for heads in (5, 6)]
    for n, each in enumerate(all_.chairs):
        hold(each, records[n % 2])
    all_.pass_time(60.0)
    (place,) = {each.decision.state.governed.log for each in all_.chairs}
    assert place in [record.place for record in records]
    assert all(len(each.adopted) == 1 for each in all_.chairs), "the other is no wake any more"


def test_who_proposes_without_a_record_that_was_held_for_long_is_refused() -> None:
    one = chair(0)
    record = extension()
    hold(one, record)
    one.see(*updates()[:1])
    one.pass_time(DEADLINE_S)
    one.see(a_proposal(choices(FIRST, updates()[:1])))
    assert one.sent("vote")[-1].value is None
    assert reasons(one) == [(Reason(ReasonKind.IGNORED, record.record.id, 0),)]


def test_who_takes_another_record_of_that_number_is_not_refused() -> None:
    one = chair(0)
    hold(one, extension())
    one.see(*updates()[:1])
    one.pass_time(DEADLINE_S)
    chosen = choices(FIRST, updates()[:1], governance=(extension(end_heads=12),))
    one.see(a_proposal(chosen))
    assert one.sent("vote")[-1].value is not None


def test_a_record_that_came_shortly_before_closing_may_be_left_out() -> None:
    one = chair(0)
    one.pass_time(DEADLINE_S - 1.0)
    hold(one, extension())
    one.see(*updates()[:1])
    one.pass_time(DEADLINE_S)
    one.see(a_proposal(choices(FIRST, updates()[:1])))
    assert one.sent("vote")[-1].value is not None


def test_a_record_without_the_one_before_it_waits() -> None:
    one = chair(0)
    first = extension()
    hold(one, extension(first.place))
    assert one.machine.window.governance() == ()
    hold(one, first)
    assert [each.record.number for each in one.machine.window.governance()] == [1, 2]


def test_what_a_chain_has_taken_is_forgotten() -> None:
    setting, _, all_ = over()
    first = extension(setting=setting)
    second = extension(first.place, setting=setting, end_heads=12)
    one = all_.chairs[0]
    for each in all_.chairs:
        hold(each, first)
    all_.pass_time(SETTLE_S + 1.0)
    assert one.machine.records == {}
    hold(one, first)
    assert one.machine.window.governance() == ()
    hold(one, second)
    assert one.machine.window.governance() == (second,)


def test_a_beacon_wakes_no_finished_run_and_an_idle_run_is_woken_by_a_record() -> None:
    setting, _, all_ = over()
    one = all_.chairs[0]
    one.see(beacon(3, TRAINERS[0], setting=setting))
    assert one.machine.window.closes_s() is None
    idle = replace(
        FIRST,
        state=replace(FIRST.state, plan=replace(FIRST.state.plan, roster=(), state=PlanState.IDLE)),
    )
    other = Chair(VALIDATORS[0], SETTING, idle)
    other.start()
    other.pass_time(3.0)
    hold(other, extension())
    assert other.machine.window.closes_s() == 3.0 + SETTLE_S
