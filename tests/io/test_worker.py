"""The worker port over real processes. Importing torch takes seconds: tests share processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from p2pd.core.work import EvaluateJob
from p2pd.errors import LocalError, WorkloadError
from p2pd.ports import Worker
from tests.io.probe import PROBE
from tests.io.worker_bench import LIMIT_S, Scene, ended, job, play

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="these tests watch processes the Linux way"
)


def test_one_process_serves_call_after_call_and_outlives_failures(tmp_path: Path) -> None:
    scene = Scene(tmp_path, memory_bytes=2**34)

    async def part() -> None:
        worker: Worker = scene.worker
        info = await worker.info()
        assert (info.train_samples, info.metric, len(info.source)) == (64, "nothing", 32)
        base = await scene.worker.initial()
        result = await worker.train(job(base, 0))
        assert (result.samples, result.steps, result.loss) == (16, 3, 500_000)
        assert result.size_bytes == scene.shelf.path(result.artifact).stat().st_size
        assert await scene.said("training as") == "0"

        evaluation = await worker.evaluate(EvaluateJob(result.artifact, 1, 3))
        assert (evaluation.metric, evaluation.loss) == (250_000, 1_500_000)
        assert len(evaluation.private) == 3

        with pytest.raises(WorkloadError, match=r"^ValueError: no such luck \(.*workload\.py:\d+"):
            await worker.train(job(base, 1))
        with pytest.raises(WorkloadError, match=r"^weight has values that are not finite"):
            await worker.train(job(base, 6))
        for seed, said in ((9, "17 samples of a lease of 16"), (10, "0 steps for 16 samples: ")):
            with pytest.raises(WorkloadError, match=said):
                await worker.train(job(base, seed))
        assert "ValueError: no such luck" in scene.lines  # the traceback is in the log

        with pytest.raises(WorkloadError, match=r"^MemoryError"):
            await worker.train(job(base, 7))
        assert "100 %" in scene.lines  # what a progress bar ended as
        assert max(map(len, scene.lines)) == 2000

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.train, job(base, 5))
                await scene.said("training as 5")
                scope.cancel()
        assert scope.cancelled_caught
        await worker.train(job(base, 0))
        assert len(scene.pids()) == 1
        assert scene.shelf.unfinished() == []

    play(scene, part)


def test_a_process_that_dies_is_named_reaped_with_its_group_and_replaced(tmp_path: Path) -> None:
    scene = Scene(tmp_path, train_s=3.0, grace_s=1.0)

    async def part() -> None:
        worker = scene.worker
        base = await worker.initial()
        with pytest.raises(WorkloadError, match=r"ended with exit code 7; it last said: sleeper"):
            await worker.train(job(base, 2))
        await ended(int(await scene.said("sleeper")))
        await ended(int(await scene.said("apart")))

        with pytest.raises(
            WorkloadError, match=r"killed \(SIGKILL\) by somebody, and not by the ker"
        ):
            await worker.train(job(base, 4))

        with pytest.raises(WorkloadError, match=r"was ended by SIG40$"):
            await worker.train(job(base, 11))

        with pytest.raises(WorkloadError, match="was killed: it wrote no answer but other bytes"):
            await worker.train(job(base, 8))

        with pytest.raises(WorkloadError, match="closed the descriptors that it answers through"):
            await worker.train(job(base, 13))
        crashed = r"crashed \(SIGSEGV\) in native code at .*probe_workload\.py:\d+$"
        with pytest.raises(WorkloadError, match=crashed):
            await worker.train(job(base, 20))

        assert len(scene.pids()) == 6

        source = tmp_path / "probe_workload.py"
        source.write_text(PROBE + "# another version")
        with pytest.raises(WorkloadError, match="probe_workload was changed on disk"):
            await worker.evaluate(EvaluateJob(base, 1, 3))
        assert scene.shelf.unfinished() == []

    play(scene, part)
    pids = [int(line.removeprefix("built by ")) for line in scene.pids()]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_module_that_cannot_be_used_is_named_and_the_process_goes_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, module="broken_workload")

    async def part() -> None:
        with pytest.raises(WorkloadError, match="'broken_workload' is not installed here"):
            await scene.worker.info()
        path = tmp_path / "broken_workload.py"
        path.write_text("print('importing')\nimport no_such_library\n")
        with pytest.raises(
            WorkloadError, match=r"ModuleNotFoundError: .*no_such_library.*\(.*broken.*\.py:2\)"
        ):
            await scene.worker.info()
        path.write_text((tmp_path / "probe_workload.py").read_text())
        assert (await scene.worker.info()).metric == "nothing"

    play(scene, part)


LIES = (
    PROBE
    + """
from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.workload.session import Session

honest_train, honest_evaluate = Session.train, Session.evaluate

def train(self, call, pause):
    done = honest_train(self, call, pause)
    was = done.manifest
    said = [was, done.samples, done.steps, done.loss, done.duration_us]
    of_no_size = Manifest(was.kind, was.schema, 0, ())
    of_head = Manifest(ArtifactKind.HEAD, was.schema, was.size_bytes, was.chunks)
    of_other = Manifest(was.kind, bytes(32), was.size_bytes, was.chunks)
    lies = [(1, 17), (1, -1), (2, 0), (2, 17), (2, 2**63), (3, 2**63), (3, "x"), (4, -1), (4, 2**63)]
    lies += [(0, of_no_size), (0, of_head), (0, of_other)]
    place, lie = lies[call.job.seed - 100]
    said[place] = lie
    return tuple(said)

def evaluate(self, call, pause):
    was = honest_evaluate(self, call, pause)
    said = [was.head, was.finite, was.metric, was.loss, was.samples, was.private]
    lies = [(0, bytes(32)), (1, False), (2, 2**60), (3, -(2**60)), (4, 0), (4, -3), (4, 2**50)]
    lies += [(5, (1,)), (5, ()), (5, (1,) * 9), (5, (2**60,) * 3), (5, "xyz")]
    place, lie = lies[call.job.private_seed]
    said[place] = lie
    return tuple(said)

Session.train, Session.evaluate = train, evaluate
"""
)


def test_no_number_of_a_process_that_lies_passes_its_border(tmp_path: Path) -> None:
    scene = Scene(tmp_path, module="lying_workload")
    (tmp_path / "lying_workload.py").write_text(LIES)

    async def part() -> None:
        worker = scene.worker
        base = await worker.initial()
        for lie in range(12):
            with pytest.raises(WorkloadError, match="process gave a malformed answer: "):
                await worker.train(job(base, 100 + lie))
        for lie in range(12):
            with pytest.raises(WorkloadError, match="process gave a malformed answer: "):
                await worker.evaluate(EvaluateJob(base, lie, 3))
        assert len(scene.pids()) == 1

    play(scene, part)


def test_calls_without_a_running_worker_are_a_bug(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with pytest.raises(LocalError, match="not running"):
        trio.run(scene.worker.info)


DAEMON = """
import sys
from pathlib import Path
import trio
from p2pd.io.worker import WorkerProcess, WorkerSettings

async def main():
    root = Path(sys.argv[1])
    settings = WorkerSettings(module="looping_workload", paths=(root,))
    worker = WorkerProcess(settings, None, lambda line: print(line, flush=True))
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await worker.info()

trio.run(main)
"""


def test_a_worker_in_an_endless_loop_dies_with_its_daemon(tmp_path: Path) -> None:
    (tmp_path / "looping_workload.py").write_text(
        "import os, subprocess\n"
        "apart = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print('loop', os.getpid(), apart.pid)\nwhile True:\n    pass\n"
    )
    command = [sys.executable, "-c", DAEMON, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        pids = map(int, daemon.stdout.readline().removeprefix("loop ").split())
        daemon.send_signal(signal.SIGKILL)

        async def main() -> None:
            with trio.fail_after(LIMIT_S):
                for pid in pids:
                    await ended(pid)

        trio.run(main)
