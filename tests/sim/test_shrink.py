"""Failing fleets are made smaller, as far as they go on failing."""

from p2pd.sim.faults import Crash, FaultSet
from p2pd.sim.shape import FleetShape
from p2pd.sim.shrink import shrink

SEED = 3
SHAPE = FleetShape(windows=20, faults=FaultSet.ALL)
SCHEDULE = SHAPE.schedule(SEED)


def happening(shape: FleetShape) -> tuple[int, ...]:
    return tuple(range(len(SCHEDULE))) if shape.only is None else shape.only


def test_what_does_not_matter_is_left_out() -> None:
    needed = {2, len(SCHEDULE) - 1}
    runs: list[FleetShape] = []

    def fails(shape: FleetShape) -> bool:
        runs.append(shape)
        return (
            shape.windows >= 3
            and needed <= set(happening(shape))
            and "trainer2" not in shape.without
        )

    small = shrink(SHAPE, SEED, fails)
    assert small.windows == 4
    assert small.only == tuple(sorted(needed))
    assert set(small.without) == {"viewer1", "trainer3", "reducer1"}
    assert fails(small)
    assert len(runs) <= 61
    assert shrink(SHAPE, SEED, fails) == small


def test_what_cannot_be_made_smaller_stays_as_it_is() -> None:
    assert shrink(SHAPE, SEED, lambda shape: shape == SHAPE) == SHAPE


def test_no_more_fleets_are_run_than_allowed() -> None:
    runs: list[FleetShape] = []

    def fails(shape: FleetShape) -> bool:
        runs.append(shape)
        return True

    shrink(SHAPE, SEED, fails, runs_most=3)
    assert len(runs) == 3


def test_a_fault_that_is_left_out_leaves_the_others_where_they_were() -> None:
    assert any(isinstance(fault, Crash) for fault in SCHEDULE)
    assert FleetShape(windows=1, only=(1,), without=("trainer3",)).schedule(SEED) == SCHEDULE
