"""A worker that fails ends the lease, with its own message; the next lease has all workers again."""

import sys
from pathlib import Path

import pytest
import trio

from p2pd.core.ids import ArtifactId
from p2pd.errors import WorkloadError
from tests.io.worker_bench import Scene, play
from tests.workload.devices.crewed import crewed, job

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="these tests watch processes the Linux way"
)

FAILED_S = 10.0


async def fails(scene: Scene, base: ArtifactId, seed: int, match: str) -> None:
    await scene.worker.info()  # starts whoever has ended
    with trio.fail_after(FAILED_S), pytest.raises(WorkloadError, match=match):
        await scene.worker.train(job(base, seed))


def test_a_worker_that_raises_or_is_killed_fails_the_lease_in_its_own_words(tmp_path: Path) -> None:
    scene = crewed(tmp_path, 2)

    async def part() -> None:
        base = await scene.worker.initial()
        raised = r"^worker 1 failed: ValueError: no such luck \(.*crewed_workload\.py:\d+\)$"
        await fails(scene, base, 2, raised)
        await fails(scene, base, 1, r"^worker 1 failed: its process was killed \(SIGKILL\)")
        await fails(scene, base, 3, "^main worker failed: MemoryError: step 2")

    play(scene, part)
    pids = [int(line.removeprefix("built by ")) for line in scene.pids()]
    assert len(pids) == 4  # one main worker, and a fellow for each failure
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
