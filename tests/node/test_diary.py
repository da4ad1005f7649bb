"""What the log of a node says of heights, in virtual time."""

import logging
import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio

from p2pd.core.decision import PlanState
from p2pd.node.diary import EVERY_S, Diary
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import SimFleet
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FleetShape

WINDOWS = 12
HEAD = "[0-9a-f]{10}"
LINE = re.compile(rf"height (\d+): (promoted {HEAD}|kept\(idle\), the head is {HEAD})")
MEASURED = re.compile(r", closeness \d+\.\d{4}(, \d+ updates?)?")


def told_of_a_run(who: str = "viewer1") -> Sequence[tuple[float, str]]:
    """When was said what, until some time after the end."""
    said: list[tuple[float, str]] = []

    def tell(line: str) -> None:
        said.append((trio.current_time(), line))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(1, FleetShape(windows=WINDOWS, faults=FaultSet.NONE), nursery)
            nursery.start_soon(fleet.run)
            await trio.sleep(0.1)
            lane = fleet.lives[who].lane
            assert lane is not None
            nursery.start_soon(Diary(lane, tell).run)
            while lane.decision.state.plan.state is not PlanState.FINISHED:
                await lane.moved.wait()
            await trio.sleep(3 * EVERY_S)
            late: list[str] = []
            nursery.start_soon(Diary(lane, late.append).run)
            await trio.sleep(3 * EVERY_S)
            assert late == [said[-1][1]], "a node that starts after the end says so, once"
            nursery.cancel_scope.cancel()

    run_seeded(1, main, 600.0)
    return said


def test_decisions_are_told_in_one_line_for_many_and_the_end_once() -> None:
    said = told_of_a_run()
    *lines, (_, end) = said
    heights = []
    for _, line in lines:
        found = LINE.match(line)
        assert found is not None, line
        assert MEASURED.match(line[found.end() :]), line
        assert line.startswith("height 1: ") != ("update" in line)
        heights.append(int(found[1]))
    assert 1 < len(lines) < WINDOWS
    for (before_s, _), (after_s, _) in pairwise(lines):
        assert after_s - before_s >= EVERY_S
    assert "since" not in lines[0][1]
    for (before, after), (_, line) in zip(pairwise(heights), lines[1:], strict=True):
        many = after - before
        assert line.endswith(f"; {many} decision{'s' * (many > 1)} since the last such line")
    assert re.fullmatch(
        rf"the revision has come to its end at height {heights[-1]}, with head {HEAD}", end
    )


def test_a_trainer_tells_what_it_trained(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "p2pd.roles")
    told_of_a_run("trainer1")
    told = [record.message for record in caplog.records if record.name == "p2pd.roles"]
    line = re.compile(
        r"height \d+: \d+ samples? in \d+\.\d\d s, loss \d+\.\d{4}"
        r"(; \d+ leases? more since the last such line)?"
    )
    assert told
    assert all(line.fullmatch(one) for one in told), told
    assert any(one.endswith("since the last such line") for one in told)
