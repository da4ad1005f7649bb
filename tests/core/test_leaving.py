"""Peers that say that they leave: what a window makes of it, and what becomes of their leases."""

from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.ids import UpdateId
from p2pd.core.messages import Service
from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.window import LEAVE_HEARD_S, Entry, Fetch, Window
from p2pd.core.work import Verdict
from p2pd.io.keys import Ed25519Signer
from tests.core.builders import (
    REDUCERS,
    SETTING,
    TRAINERS,
    beacon,
    choices,
    follow,
    leave,
    release,
    running,
    setting_of,
    update,
)

OPENED_S = 1000.0
DEADLINE_S = SETTING.revision.schedule.deadline_ms / 1000
DEALT = running(trainers=2)
HEIGHT = 2
STAYS, GOES = TRAINERS[0], TRAINERS[1]
LEFT_S = OPENED_S + 3.0


def window(previous: Decision = DEALT, setting: Setting = SETTING) -> Window:
    return Window(setting, previous, OPENED_S)


def deliver(here: Window, who: Ed25519Signer) -> None:
    signed = update(here.previous, who, here.setting)
    entry = here.entries[UpdateId(signed.id)] = Entry(signed, None)
    here.note_verdict(entry, Verdict.ACCEPTED, "", OPENED_S + 1.0)


def test_a_leave_gives_a_lease_up_once_it_was_held_for_half_a_second() -> None:
    here = window()
    deliver(here, STAYS)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    here.hear(leave(HEIGHT, GOES), LEFT_S)
    assert here.closes_s() == LEFT_S + LEAVE_HEARD_S
    here.hear(leave(HEIGHT, GOES), LEFT_S + 1.0)
    assert here.closes_s() == LEFT_S + LEAVE_HEARD_S


def test_a_window_that_has_more_to_wait_for_does_not_close_by_a_leave() -> None:
    here = window()
    here.hear(leave(HEIGHT, GOES), LEFT_S)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    assert here.mostly_delivered_s is None
    here.hear(release(DEALT, STAYS), LEFT_S + 5.0)
    assert here.closes_s() == LEFT_S + LEAVE_HEARD_S


def test_a_leave_never_makes_a_window_last_longer() -> None:
    here = window()
    deliver(here, STAYS)
    here.hear(leave(HEIGHT, GOES), OPENED_S + DEADLINE_S - 0.1)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    here.mostly_delivered_s = OPENED_S + 2.0
    assert here.closes_s() == OPENED_S + 3.0


def test_an_update_that_came_counts_whatever_its_author_says_after_it() -> None:
    here = window()
    deliver(here, STAYS)
    signed = update(DEALT, GOES)
    entry = here.entries[UpdateId(signed.id)] = Entry(signed, None)
    here.hear(leave(HEIGHT, GOES), LEFT_S)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    here.note_verdict(entry, Verdict.ACCEPTED, "", LEFT_S + 2.0)
    assert here.closes_s() == OPENED_S
    assert signed in [candidate.update for candidate in here.candidates(frozenset())]


def test_an_update_of_one_that_left_and_came_back_counts_while_the_window_is_open() -> None:
    here = window()
    here.hear(beacon(HEIGHT, GOES), OPENED_S)
    here.hear(leave(HEIGHT, GOES), LEFT_S)
    here.hear(beacon(HEIGHT, GOES), LEFT_S + 2.0)  # the same as before: a replay would be, too
    assert here.presence(LEFT_S + 2.0) == ()
    deliver(here, GOES)
    assert here.closes_s() == OPENED_S + DEADLINE_S
    assert [one.update.signer for one in here.candidates(frozenset())] == [GOES.peer]


def test_an_update_that_nobody_can_fetch_any_more_is_not_waited_for() -> None:
    here = window()
    deliver(here, STAYS)
    signed = update(DEALT, GOES)
    here.entries[UpdateId(signed.id)] = Entry(signed, None, Fetch.FAILED)
    here.hear(leave(HEIGHT, GOES), LEFT_S)
    assert here.closes_s() == OPENED_S


def test_who_has_left_is_present_for_half_a_second_more() -> None:
    here = window()
    stays, goes = beacon(HEIGHT, STAYS), beacon(HEIGHT, GOES)
    merges = beacon(HEIGHT, REDUCERS[0], Service.REDUCE)
    for one in (stays, goes, merges):
        here.hear(one, OPENED_S)
    for who in (GOES, REDUCERS[0]):
        here.hear(leave(HEIGHT, who), LEFT_S)
    assert set(here.presence(LEFT_S + LEAVE_HEARD_S - 0.01)) == {stays, goes, merges}
    assert here.presence(LEFT_S + LEAVE_HEARD_S) == (stays,)


def test_nobody_objects_that_one_is_missing_whose_leave_it_holds() -> None:
    closed_s = OPENED_S + 40.0
    here = window()
    for who in (STAYS, GOES):
        here.hear(beacon(HEIGHT, who), OPENED_S)
    missing = [Reason(ReasonKind.ABSENT, who.peer, 0) for who in (STAYS, GOES)]
    assert here.left_out(choices(DEALT), closed_s) == tuple(missing)
    here.hear(leave(HEIGHT, GOES), closed_s)  # at once
    assert here.left_out(choices(DEALT), closed_s) == (missing[0],)
    everybody = [beacon(HEIGHT, who) for who in (STAYS, GOES)]
    assert here.left_out(choices(DEALT, (), everybody), closed_s) == ()


def decided(*present: Ed25519Signer, setting: Setting = SETTING) -> Decision:
    """What follows the plan of two where only one delivered."""
    dealt = running(trainers=2, setting=setting)
    beacons = [beacon(HEIGHT, who, setting=setting) for who in present]
    return follow(dealt, choices(dealt, [update(dealt, STAYS, setting)], beacons), setting)


BOTH = decided(STAYS, GOES)
NEXT_S = LEFT_S + 20.0


def after(last: Window, previous: Decision = BOTH) -> Window:
    here = Window.after(last, SETTING, previous, NEXT_S)
    deliver(here, STAYS)
    return here


def test_a_lease_dealt_to_one_that_had_just_left_is_given_up_as_well() -> None:
    last = window()
    last.hear(leave(HEIGHT, GOES), LEFT_S)
    here = after(last)
    assert here.closes_s() == NEXT_S + LEAVE_HEARD_S
    assert after(window()).closes_s() == NEXT_S + DEADLINE_S
    # The height after that knows nothing of it.
    beacons = [beacon(HEIGHT + 1, who) for who in (STAYS, GOES)]
    third = follow(BOTH, choices(BOTH, [update(BOTH, STAYS)], beacons))
    assert third.state.plan.lease_of(GOES.peer) is not None
    assert Window.after(here, SETTING, third, NEXT_S).leaves == {}


def test_a_leave_that_comes_a_height_late_counts_where_there_is_a_lease() -> None:
    here = after(window())
    here.hear(leave(HEIGHT, TRAINERS[2]), NEXT_S + 1.0)
    here.hear(leave(HEIGHT - 1, GOES), NEXT_S + 1.0)
    assert here.leaves == {}
    here.hear(leave(HEIGHT, GOES), NEXT_S + 1.0)
    assert here.closes_s() == NEXT_S + 1.0 + LEAVE_HEARD_S


def test_who_shows_itself_again_a_height_later_has_not_left() -> None:
    last = window()
    last.hear(leave(HEIGHT, GOES), LEFT_S)
    here = after(last)
    back = beacon(HEIGHT + 1, GOES)
    here.hear(back, NEXT_S + 0.1)
    here.hear(leave(HEIGHT, GOES), NEXT_S + 0.2)  # a replay
    assert here.closes_s() == NEXT_S + DEADLINE_S
    assert here.presence(NEXT_S + 10.0) == (back,)


def test_it_may_leave_again_a_height_later() -> None:
    last = window()
    last.hear(leave(HEIGHT, GOES), LEFT_S)
    here = after(last)
    here.hear(leave(HEIGHT + 1, GOES), NEXT_S + 0.1)
    here.hear(beacon(HEIGHT + 1, GOES), NEXT_S + 0.2)
    assert here.closes_s() == NEXT_S + 0.1 + LEAVE_HEARD_S
    assert here.presence(NEXT_S + 10.0) == ()


AHEAD = setting_of(lookahead=1)


def shards(leases: Any) -> set[int]:
    return {shard for lease in leases for shard in lease.shards}


def test_i07_what_was_reserved_for_one_that_left_and_its_late_lease_come_back_by_themselves() -> (
    None
):
    first = running(trainers=2, setting=AHEAD)
    gone = first.state.plan.lease_of(GOES.peer)
    assert gone is not None
    assert gone.reserved
    second = decided(STAYS, setting=AHEAD)
    plan, late = second.state.plan, second.state.late
    assert [lease.peer for lease in plan.roster] == [STAYS.peer]
    # Reserved comes back at once, to be dealt; the lease may still be late, for one window.
    waiting = {entry.shard for entry in second.state.returned}
    assert set(gone.reserved) <= waiting | shards(plan.roster) | set(plan.roster[0].reserved)
    assert late is not None
    assert shards(late.plan.roster) == set(gone.shards)
    here = Window(AHEAD, second, OPENED_S)
    deliver(here, STAYS)
    assert here.closes_s() == OPENED_S
    cohort, present = [update(second, STAYS, AHEAD)], [beacon(HEIGHT + 1, STAYS, setting=AHEAD)]
    third = follow(second, choices(second, cohort, present), AHEAD)
    assert third.state.late is None
    waiting = {entry.shard for entry in third.state.returned}
    assert set(gone.shards) <= waiting | shards(third.state.plan.roster) | {
        shard for lease in third.state.plan.roster for shard in lease.reserved
    }


def test_two_that_leave_in_a_crowd_change_nothing_for_the_others() -> None:
    here = window(running(trainers=4))
    for who in TRAINERS[:4]:
        here.hear(beacon(HEIGHT, who), OPENED_S)
    for who in TRAINERS[:2]:
        here.hear(leave(HEIGHT, who), LEFT_S)
    deliver(here, TRAINERS[2])
    assert here.closes_s() == OPENED_S + DEADLINE_S
    deliver(here, TRAINERS[3])
    assert here.closes_s() == LEFT_S + LEAVE_HEARD_S
    assert {one.signer for one in here.presence(LEFT_S + 1.0)} == {
        who.peer for who in TRAINERS[2:4]
    }
