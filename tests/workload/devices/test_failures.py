"""A worker that fails ends the lease, with its own message; the next lease has all workers again."""

import sys
from pathlib import Path

import pytest

from tests.io.worker_bench import play
from tests.workload.devices.checks import fails, nothing_is_left
from tests.workload.devices.crewed import crewed

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="these tests watch processes the Linux way"
)


def test_a_worker_that_raises_or_is_killed_fails_the_lease_in_its_own_words(tmp_path: Path) -> None:
    scene = crewed(tmp_path, 2)

    async def part() -> None:
        raised = r"^worker 1 failed: ValueError: no such luck \(.*crewed_workload\.py:\d+\)$"
        await fails(scene, 2, raised)
        await fails(scene, 1, r"^worker 1 failed: its process was killed \(SIGKILL\)")
        await fails(scene, 3, "^main worker failed: MemoryError: step 2")

    play(scene, part)
    assert len(scene.pids()) == 4  # one main worker, and a fellow for each failure
    nothing_is_left(scene)
