from pathlib import Path
from typing import Any

import pytest
import trio

from p2pd.bench.fleet import Measured, Shape, run_fleet
from p2pd.bench.window import STEPS, durations, report
from p2pd.errors import P2pError

AFTER_S = dict(zip(STEPS, (1.0, 3.0, 3.5, 5.0, 5.25, 6.0, 6.25), strict=True))
SHAPE = Shape(megabytes=0.94, windows=4, warm_up=1, trainers=2)


def decided(**changes: float) -> dict[str, Any]:
    after_s = {**AFTER_S, **changes}
    return {"steps": [{"step": step, "after_s": value} for step, value in after_s.items()]}


def test_each_step_takes_from_the_end_of_the_one_before() -> None:
    assert durations(decided()) == {
        "publish": 1.0,
        "fetch": 2.0,
        "screen": 0.5,
        "merge": 1.5,
        "evaluate": 0.25,
        "vote": 0.75,
        "adopt": 0.25,
    }


def test_a_step_that_was_over_before_the_one_before_it_takes_nothing() -> None:
    found = durations(decided(screen=2.0))
    assert (found["fetch"], found["screen"], found["merge"]) == (2.0, 0.0, 2.0)
    assert sum(found.values()) == 6.25


def test_a_report_has_a_row_for_each_step_the_total_and_the_bytes() -> None:
    rows = {
        "validator1": [decided(), decided(vote=7.0, adopt=8.0)],
        "validator2": [decided(adopt=7.0)],
        "trainer1": [decided(fetch=900.0)],
    }
    floors = {"total": (0.5, "two models by mail")}
    found = report(SHAPE, Measured(rows, 7.5e6), floors)
    assert [row.name for row in found] == [f"0.94MB {what}" for what in (*STEPS, "total", "wire")]
    total, wire = found[-2:]
    assert (total.value, total.unit, total.ratio) == (7.0, "s", 14.0)
    assert (wire.value, wire.unit, wire.ratio) == (7.5, "MB", None)


def test_nothing_measured_is_an_error_and_no_row() -> None:
    with pytest.raises(P2pError, match="nothing was measured"):
        report(SHAPE, Measured({"validator1": []}, 0.0), {})


def test_a_small_fleet_of_daemons_is_measured_by_its_own_account(tmp_path: Path) -> None:
    shape = Shape(megabytes=0.01, windows=3, warm_up=1, trainers=1, validators=1)

    async def main() -> Measured:
        with trio.fail_after(100):
            return await run_fleet(tmp_path, shape, 90.0, lambda line: None)

    found = trio.run(main)
    assert set(found.rows) == {"validator1", "trainer1"}
    assert len(found.rows["validator1"]) == 2
    steps = durations(found.rows["validator1"][0])
    assert steps["publish"] > 0
    assert steps["merge"] > 0
    # At least the head to the trainer and its update back.
    assert found.wire_bytes > 2 * 10_000
