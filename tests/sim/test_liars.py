"""Who lies in a fleet is drawn from its seed, within what the fleet withstands; and it withstands them."""

from dataclasses import replace

import pytest

from p2pd.core import pool, standing
from p2pd.sim.faults import FaultSet
from p2pd.sim.liars import REDUCERS_LIES, TRAINERS_LIES, VALIDATORS_LIES, Lie, draw_liars
from p2pd.sim.lying_workers import FLOOD
from p2pd.sim.shape import FleetShape
from p2pd.sim.suite import run_seed

WEIGHTS = {"validator1": 3, "validator2": 1, "validator3": 1, "validator4": 2, "validator5": 2}
WORKERS = ["reducer1", "trainer2", "trainer3"]
LIES = {"validator": VALIDATORS_LIES, "trainer": TRAINERS_LIES, "reducer": REDUCERS_LIES}


def test_liars_weigh_no_more_than_the_set_withstands() -> None:
    drawn = [draw_liars(seed, WEIGHTS, 2, WORKERS) for seed in range(300)]
    for liars in drawn:
        assert sum(WEIGHTS.get(name, 0) for name, _ in liars) <= 2
    told = {lie for liars in drawn for _, lie in liars}
    assert told == {*VALIDATORS_LIES, *TRAINERS_LIES, *REDUCERS_LIES} == set(Lie)
    for name, lie in (one for liars in drawn for one in liars):
        assert lie in LIES[name.rstrip("0123456789")]


def test_a_seed_draws_the_same_liars_each_time_and_none_where_none_are_asked_for() -> None:
    shape = FleetShape(validators=4, quorum=3, faults=FaultSet.LIARS)
    shapes = [shape.of_seed(seed) for seed in range(20)]
    assert shapes == [shape.of_seed(seed) for seed in range(20)]
    assert len({one.liars for one in shapes}) > 10
    assert all(one.of_seed(seed) == one for seed, one in enumerate(shapes) if one.liars)
    assert FleetShape(faults=FaultSet.NETWORK).of_seed(1).liars == ()
    two = replace(shape, revisions=2)
    for lying in (
        {name for name, _ in one.of_seed(seed).liars} for one in (shape, two) for seed in range(20)
    ):
        assert "trainer1" not in lying
    assert any("trainer2" in dict(one.liars) for one in shapes)
    assert not any("trainer2" in dict(two.of_seed(seed).liars) for seed in range(20))
    small = [FleetShape(faults=FaultSet.LIARS).of_seed(seed).liars for seed in range(20)]
    assert not any(name.startswith("validator") for liars in small for name, _ in liars)


@pytest.mark.parametrize(
    "lies",
    [
        (Lie.SILENT, Lie.UNASKED, Lie.LATE),
        (Lie.WITHHOLD, Lie.OLD, Lie.ABSENT),
        (Lie.UNFETCHABLE, Lie.GONE, Lie.WRONG_MERGE),
        (Lie.HOARD, Lie.CONFIDE, Lie.LATE),
        (Lie.CENSOR, Lie.TWICE, Lie.ABSENT),
        (Lie.TURNCOAT, Lie.GREED, Lie.WRONG_MERGE),
        (Lie.BABBLE, Lie.FLOOD, Lie.ABSENT),
    ],
    ids=lambda lies: lies[0].value,
)
def test_i01_liars_of_every_role_at_a_time_change_nothing(lies: tuple[Lie, Lie, Lie]) -> None:
    names = ("validator2", "trainer2", "reducer1")
    liars = tuple(zip(names, lies, strict=True))
    shape = FleetShape(validators=4, quorum=3, windows=2, faults=FaultSet.NONE, liars=liars)
    result = run_seed(shape, 1)
    assert result.violations == ()
    assert result.decisions > 2


FLOODED = FleetShape(windows=1, faults=FaultSet.NONE, liars=(("trainer2", Lie.FLOOD),))


def test_i09_without_its_limit_what_a_flood_fills_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_seed(FLOODED, 0).violations == ()
    monkeypatch.setitem(pool.MOST_PER_AUTHOR, "release", 100)
    found = {(one.invariant, one.what) for one in run_seed(FLOODED, 0).violations}
    assert ("I9", f"validator1 holds {FLOOD} objects of kind release of one author") in found


def test_i11_without_its_rule_that_nobody_is_quarantined_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = FleetShape(windows=3, faults=FaultSet.NONE, liars=(("trainer2", Lie.GARBAGE),))
    assert run_seed(shape, 0).violations == ()
    monkeypatch.setattr(standing, "QUARANTINE_BELOW", 0)
    found = {(one.invariant, one.what) for one in run_seed(shape, 0).violations}
    assert ("I11", "a stranger or liar is not in quarantine after 3 misdeeds") in found
