"""What users' code does wrong, and what is said of it. Importing torch takes seconds: tests share processes."""

import re
import sys
from pathlib import Path

import pytest
import trio

from p2pd.core.ids import ArtifactId
from p2pd.core.work import EvaluateJob
from p2pd.errors import WorkloadError
from tests.io.probe import PROBE
from tests.io.worker_bench import Scene, job, play

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="these tests watch processes the Linux way"
)


FAILURES = {
    12: r"^it called sys\.exit\(4\): have it return, or raise what is wrong \(.*workload\.py:\d+\)",
    16: r"^MemoryError: out of memory, it may hold 4\.3 GB \(worker\.memory_bytes\): use smaller b",
    17: r"^RuntimeError: .*can't allocate memory.*: out of memory, it may hold 4\.3 GB \(worker\.m",
    22: r"^OSError: \[Errno 28\] No space left on device: .*free some space \(.*workload\.py:\d+\)",
    24: r"^ValueError: größer\\udcff \\x1b\[31m \(.*workload\.py:\d+\)",
}


async def is_seen_at_work(scene: Scene, base: ArtifactId) -> None:
    """While it trains, and not before or after it does."""
    assert scene.worker.doing() == ""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.worker.train, job(base, 5))
        while "step" not in scene.worker.doing():  # noqa: ASYNC110 - it is in shared memory
            await trio.sleep(0.01)
        assert re.match(r"train, step \d+ for \d+ s$", scene.worker.doing())
        nursery.cancel_scope.cancel()
    assert scene.worker.doing() == ""


def test_what_a_workload_does_wrong_is_said_in_one_line_and_its_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene = Scene(tmp_path, memory_bytes=2**32)

    async def part() -> None:
        worker = scene.worker
        base = await worker.initial()
        for seed, said in FAILURES.items():
            with pytest.raises(WorkloadError, match=said) as caught:
                await worker.train(job(base, seed))
            assert str(caught.value).isprintable()
        for seed in (14, 15, 18, 23):
            assert (await worker.train(job(base, seed))).samples == 16
            await worker.evaluate(EvaluateJob(base, 1, 3))
        assert any(line.endswith("größer") for line in scene.lines)
        await is_seen_at_work(scene, base)
        assert len(scene.pids()) == 1
        left = await scene.said("p2pd: put back what the workload left:")
        assert left == "default dtype torch.float64, gradients off, working directory /"

    play(scene, part)
    assert (tmp_path / "own.txt").read_text() == "mine"


def test_a_workload_that_fails_again_and_again_is_not_tried_for_longer_and_longer(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, module="broken_workload", rest_s=30.0, rest_most_s=60.0)
    (tmp_path / "broken_workload.py").write_text("print('importing')\nraise ValueError\n")

    async def part() -> None:
        for failures in range(1, 5):
            with pytest.raises(WorkloadError, match=r"^ValueError \(.*py:2\)$"):
                await scene.worker.info()
            if failures > 1:
                refused = rf"^ValueError .*; not tried again for [2-6]\d\.\d s after {failures} failures in a row"
                with pytest.raises(WorkloadError, match=refused):
                    await scene.worker.info()
            scene.worker._rest.until_s = 0.0  # it is over

    play(scene, part)
    assert scene.lines.count("importing") == 4


def test_a_call_that_passes_its_deadline_says_how_far_it_was_and_what_it_waited_for(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, train_s=1.5, grace_s=1.0)

    async def part() -> None:
        worker = scene.worker
        base = await worker.initial()
        late = r"^train passed its deadline of 1\.5 s"
        slow = rf"{late} after \d+ steps: raise worker\.train_s, or have it do less$"
        with pytest.raises(WorkloadError, match=slow):
            await worker.train(job(base, 5))
        stuck = (
            rf"{late}, in one step for \d s at .*probe_workload\.py:\d+, and its process was killed"
        )
        with pytest.raises(WorkloadError, match=stuck):
            await worker.train(job(base, 3))
        place = 1 + PROBE.splitlines().index("            time.sleep(1000)  # hangs")
        waits = (
            rf"{late} after 3 steps, waiting for the data loader for \d s at .*\.py:{place}, and"
        )
        with pytest.raises(WorkloadError, match=waits):
            await worker.train(job(base, 19))
        assert len(scene.pids()) == 2

    play(scene, part)
