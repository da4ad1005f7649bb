"""Several workers on the CPU, as real processes over gloo: one model, one schedule, one count of samples.

What fails, and how, is in test_failures. Importing torch takes seconds, four times over: one team serves many checks.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from p2pd.core.ids import ArtifactId
from p2pd.core.work import TrainJob
from p2pd.tensors.files import TensorFile
from p2pd.tensors.updates import WHOLE
from p2pd.workload.protocol import BuildCall, Done, TrainCall
from p2pd.workload.session import Session
from tests.io.worker_bench import Scene, play
from tests.workload.devices.crewed import crewed, job

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="these tests watch processes the Linux way"
)

CLOSE = 1e-3
CONFIG = json.dumps({"accumulate": 2, "clip_norm": 0.5})


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[TrainJob, Path], Done]:
    """The same workload on one device, in this process."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "crewed_workload", raising=False)
    sessions: list[Session] = []

    def train(work: TrainJob, base: Path) -> Done:
        if not sessions:
            sessions.append(Session(BuildCall("crewed_workload", CONFIG, 1)))
        output = tmp_path / "alone.safetensors"
        output.unlink(missing_ok=True)
        paths = map(os.fsencode, (base, output))
        return sessions[0].train(TrainCall(work, *paths), lambda: None)

    return train


def most_apart(one: Path, other: Path) -> float:
    files = TensorFile(one), TensorFile(other)
    names = range(len(files[0].tensors))
    pairs = ((file.values(name, WHOLE) for file in files) for name in names)
    return max(float(abs(first - second).max()) for first, second in pairs)


def test_four_workers_train_as_one_does_whatever_the_batches_are(
    tmp_path: Path, alone: Callable[[TrainJob, Path], Done]
) -> None:
    scene = crewed(tmp_path, 4, config=CONFIG)

    async def same(work: TrainJob, base: ArtifactId) -> tuple[int, int]:
        result = await scene.worker.train(work)
        done = alone(work, scene.shelf.path(base))
        assert (result.samples, result.steps) == (done.samples, done.steps)
        assert abs(result.loss - done.loss) / 1e6 < CLOSE
        written = tmp_path / "alone.safetensors"
        assert most_apart(scene.shelf.path(result.artifact), written) < CLOSE
        return result.samples, result.steps

    async def part() -> None:
        base = await scene.worker.initial()
        # Nine batches of 7 and one of 1, two to a step: 7 is 2 2 2 1 of nobody's, and the last is the main worker's.
        assert await same(job(base, 20), base) == (64, 5)
        assert await same(job(base, 21, steps=30), base) == (
            64,
            5,
        )  # optimizers go on, as do schedules
        small = TrainJob(1, base, (3,), 2, job(base, 22).progress, 22)
        assert await same(small, base) == (2, 1)  # fewer samples than workers
        assert await same(job(base, 9), base) == (
            28,
            2,
        )  # the main worker's callback stops them all
        assert [line for line in scene.lines if line.startswith("lease of")] == [
            "lease of rank 0 of 4"
        ] * 4

        await interrupted(scene, base)
        assert await scene.said("4 workers stopped") == "between two steps: the lease is over"
        assert (await scene.worker.train(job(base, 23))).samples == 64
        assert len(scene.pids()) == 4  # the same processes all the time
        assert scene.shelf.unfinished() == []
        assert not (tmp_path / "workers").exists()

    play(scene, part)
    pids = [int(line.removeprefix("built by ")) for line in scene.pids()]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def interrupted(scene: Scene, base: ArtifactId) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.worker.train, job(base, 5))
            await scene.said("waiting")
            scope.cancel()
    assert scope.cancelled_caught
