from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.decision import Standing
from p2pd.core.standing import (
    HARMFUL,
    QUARANTINE_BELOW,
    QUARANTINE_HEIGHTS,
    Conduct,
    may_serve,
    moved,
    newcomer,
)
from p2pd.core.work import FULL, Verdict
from tests.core.builders import GENESIS, SETTING, TRAINERS

SCHEDULE = SETTING.revision.schedule
ALICE, BOB = TRAINERS[0].peer, TRAINERS[1].peer
KNOWN = replace(newcomer(ALICE, SCHEDULE), delivered=5, budget_shards=4)


def after(row: Standing | None, *conduct: Conduct, height: int = 10) -> tuple[Standing, ...]:
    """Each in a window of its own, from height on."""
    state = replace(GENESIS.state, standing=() if row is None else (row,))
    for offset, what in enumerate(conduct):
        rows = moved(state, {ALICE: what}, SCHEDULE, height + offset)
        state = replace(state, standing=rows)
    return state.standing


def test_delivering_makes_the_next_lease_longer_up_to_the_limit() -> None:
    budgets = [after(None, *[Conduct.DELIVERED] * n)[0].budget_shards for n in range(1, 9)]
    assert budgets == [3, 4, 5, 6, 7, 8, 8, 8]
    assert SCHEDULE.max_lease_shards == 8


def test_missing_halves_the_next_lease_and_costs_nothing_else() -> None:
    (row,) = after(KNOWN, Conduct.MISSED, Conduct.MISSED, Conduct.MISSED, Conduct.MISSED)
    assert row == replace(KNOWN, missed=4, budget_shards=1)


def test_i09_a_crowd_that_never_delivers_leaves_no_trace() -> None:
    assert after(None, Conduct.MISSED, Conduct.MISSED) == ()


@pytest.mark.parametrize("what", [Conduct.HARMFUL, Conduct.WRONG_MERGE])
def test_i11_the_third_misdeed_in_a_row_brings_quarantine(what: Conduct) -> None:
    for count, score, until in ((1, 512, 0), (2, 256, 0), (3, 128, 13 + QUARANTINE_HEIGHTS)):
        (row,) = after(KNOWN, *[what] * count)
        assert (row.score, row.quarantined_until) == (score, until)


def test_good_work_between_misdeeds_keeps_a_peer_out_of_quarantine() -> None:
    conduct = [Conduct.HARMFUL, *[Conduct.DELIVERED] * 12] * 6
    (row,) = after(KNOWN, *conduct)
    assert row.quarantined_until == 0
    assert row.rejected == 6


def test_i11_a_peer_that_served_its_time_is_not_sent_back_for_good_work() -> None:
    served = replace(KNOWN, score=QUARANTINE_BELOW // 2, quarantined_until=10)
    for what in (Conduct.DELIVERED, Conduct.MISSED):
        (row,) = after(served, what, height=20)
        assert row.quarantined_until == 10
    (row,) = after(served, Conduct.HARMFUL, height=20)
    assert row.quarantined_until == 21 + QUARANTINE_HEIGHTS


def test_i11_quarantine_is_from_one_height_to_another() -> None:
    (row,) = after(KNOWN, *[Conduct.HARMFUL] * 3)
    state = replace(GENESIS.state, standing=(row,))
    assert not may_serve(state, ALICE, row.quarantined_until - 1)
    assert may_serve(state, ALICE, row.quarantined_until)
    assert may_serve(state, BOB, 13)


def test_only_what_no_honest_trainer_earns_by_bad_luck_is_harmful() -> None:
    assert {Verdict.LAYOUT, Verdict.SCHEMA, Verdict.NONFINITE, Verdict.LEASE} == HARMFUL


@given(st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.sampled_from(Conduct)), max_size=60))
def test_rows_stay_in_order_and_in_bounds(history: list[tuple[bytes, Conduct]]) -> None:
    state = GENESIS.state
    for height, (peer, what) in enumerate(history):
        rows = moved(state, {peer: what}, SCHEDULE, height)  # type: ignore[dict-item]
        state = replace(state, standing=rows)
        assert [row.peer for row in rows] == sorted({row.peer for row in rows})
        for row in rows:
            assert 1 <= row.budget_shards <= SCHEDULE.max_lease_shards
            assert 0 <= row.score <= FULL
            assert row.quarantined_until <= height + 1 + QUARANTINE_HEIGHTS
