"""Several workers on the CPU, as real processes over gloo: one model, one schedule, one count of samples.

Importing torch takes seconds, four times over: one team serves many checks. More of them are in the lane.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.io.worker_bench import play
from tests.workload.devices.alone import alone
from tests.workload.devices.checks import nothing_is_left, stops_when_told, trains_as_one
from tests.workload.devices.crewed import crewed

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="these tests watch processes the Linux way"
)

CONFIG = json.dumps({"accumulate": 2, "clip_norm": 0.5})


def test_four_workers_train_as_one_does_whatever_the_batches_are(tmp_path: Path) -> None:
    scene = crewed(tmp_path, 4, config=CONFIG)

    async def part() -> None:
        with alone(tmp_path, CONFIG) as one:
            await trains_as_one(scene, one)
        started = [line for line in scene.lines if line.startswith("lease of")]
        assert started == ["lease of rank 0 of 4"] * 4  # the main worker's callbacks, nobody else's
        await stops_when_told(scene)
        assert await scene.said("4 workers stopped") == "between two steps: the lease is over"
        assert len(scene.pids()) == 4
        assert not (tmp_path / "workers").exists()

    play(scene, part)
    nothing_is_left(scene)
