"""What must hold for several workers, on whatever devices: for tests on the CPU, and for the lane. Seconds."""

from pathlib import Path

import pytest
import trio

from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.errors import WorkloadError
from tests.io.worker_bench import Scene
from tests.workload.devices.alone import Alone

CLOSE = 1e-3
FAILED_S = 10.0
"""Within so long a lease fails where a worker has died."""


def job(base: ArtifactId, seed: int, *, shards: int = 4, steps: int = 0) -> TrainJob:
    """On 16 samples for each shard."""
    return TrainJob(1, base, tuple(range(shards)), 16, Progress(0, steps, 0, 0, 0), seed)


async def same(scene: Scene, one: Alone, work: TrainJob) -> tuple[int, int]:
    """Samples and steps, which are those of one worker, as are the loss and the model."""
    result = await scene.worker.train(work)
    done = one.train(work, scene.shelf.path(work.base))
    assert (result.samples, result.steps) == (done.samples, done.steps)
    assert abs(result.loss - done.loss) / 1e6 < CLOSE
    assert one.apart(scene.shelf.path(result.artifact)) < CLOSE
    return result.samples, result.steps


async def trains_as_one(scene: Scene, one: Alone) -> None:
    """Batches of 7, two to a step, whatever is left at the end, and leases that end early."""
    base = await scene.worker.initial()
    # Nine batches of 7 and one of 1: none is the same for all of four workers.
    assert await same(scene, one, job(base, 20)) == (64, 5)
    assert await same(scene, one, job(base, 21, steps=30)) == (
        64,
        5,
    )  # optimizers and schedules go on
    few = TrainJob(1, base, (3,), 2, job(base, 22).progress, 22)
    assert await same(scene, one, few) == (2, 1)  # fewer samples than workers
    assert await same(scene, one, job(base, 9)) == (
        28,
        2,
    )  # the main worker's callback stops them all


async def stops_when_told(scene: Scene) -> None:
    """All workers stop between two steps and go on with the next lease."""
    base = await scene.worker.initial()
    before = set(scene.pids())
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.worker.train, job(base, 5))
            await scene.said("waiting")
            scope.cancel()
    assert scope.cancelled_caught
    assert (await scene.worker.train(job(base, 23))).samples == 64
    assert set(scene.pids()) == before


async def fails(scene: Scene, seed: int, match: str) -> None:
    """Within ten seconds, in the words of the worker that failed."""
    base = await scene.worker.initial()
    await scene.worker.info()  # starts whoever has ended
    with trio.fail_after(FAILED_S), pytest.raises(WorkloadError, match=match):
        await scene.worker.train(job(base, seed))


def nothing_is_left(scene: Scene) -> None:
    pids = [int(line.removeprefix("built by ")) for line in scene.pids()]
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert scene.shelf.unfinished() == []
