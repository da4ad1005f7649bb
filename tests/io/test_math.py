import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trio
import trio.testing

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.work import (
    MILLION,
    InspectJob,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    RebuildJob,
    Schema,
    TensorSpec,
    Verdict,
)
from p2pd.errors import RemoteError, StoreError, UnreachableError, UsageError
from p2pd.io.math import MathConfig, MathProcess
from p2pd.ports import Math
from p2pd.tensors.files import ArtifactWriter, write_artifact

SCHEMA = Schema((TensorSpec("w", "F32", (3,), False),))
MEAN = MergeRule("mean", MILLION, 0)


class Directory:
    """Artifacts as files of a directory, no quota."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifests: dict[ArtifactId, Manifest] = {}
        self.count = 0

    async def sound(self, artifact: ArtifactId) -> Path:
        await trio.lowlevel.checkpoint()
        return self.path(artifact)

    async def all_sound(self, artifacts: Sequence[ArtifactId]) -> list[Path]:
        await trio.lowlevel.checkpoint()
        return [self.path(artifact) for artifact in artifacts]

    def path(self, artifact: ArtifactId) -> Path:
        if artifact not in self.manifests:
            raise StoreError(f"artifact {artifact.hex()} is not here")
        return self.root / artifact.hex()

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        return self.manifests.get(artifact)

    def temporary(self, suffix: str) -> Path:
        self.count += 1
        return self.root / f"{self.count}{suffix}"

    @asynccontextmanager
    async def output(self, suffix: str, size_bytes: int) -> AsyncIterator[Path]:
        path = self.temporary(suffix)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    async def adopt(self, path: Path, manifest: Manifest) -> ArtifactId:
        self.manifests[manifest.id] = manifest
        path.rename(self.root / manifest.id.hex())  # noqa: ASYNC240  a small file
        return manifest.id

    async def add(self, *values: float) -> ArtifactId:
        path = self.temporary(".new")
        arrays = {"w": np.array(values, "<f4")}
        return await self.adopt(path, write_artifact(path, ArtifactKind.UPDATE, SCHEMA, arrays))

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if "." in path.name)


def with_math(
    tmp_path: Path,
    body: Callable[[MathProcess, Directory], Awaitable[None]],
    config: MathConfig | None = None,
) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        with trio.fail_after(60):
            async with MathProcess.open(files, config or MathConfig()) as math:
                await body(math, files)

    trio.run(main)


def job_of(base: ArtifactId, *updates: ArtifactId) -> MergeJob:
    inputs = tuple(
        MergeInput(UpdateId(bytes([number])), update, 1) for number, update in enumerate(updates)
    )
    outer = OuterRule("mean", MILLION, 0)
    return MergeJob(base, None, SCHEMA, inputs, None, MEAN, outer)


def gone(process: int) -> bool:
    """Waits until a process that need not be our child has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 20)[0])
    finally:
        os.close(descriptor)


def test_a_merge_puts_the_head_into_the_store(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        base, first, second = (
            await files.add(0, 0, 0),
            await files.add(1, 2, 3),
            await files.add(3, 2, 1),
        )
        merged = await math.merge(job_of(base, first, second))
        assert files.manifests[merged.head].kind is ArtifactKind.HEAD
        assert files.path(merged.head).read_bytes()[-12:] == np.full(3, 2, "<f4").tobytes()
        assert files.leftovers() == []

    with_math(tmp_path, body)


def test_i04_a_head_made_of_a_step_goes_into_the_store_with_it_and_is_made_of_it_again(
    tmp_path: Path,
) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        base, update = await files.add(0, 0, 0), await files.add(1, 2, 3)
        job = replace(job_of(base, update), head_codec="int8")
        merged = await math.merge(job)
        assert merged.step is not None
        assert merged.outer is not None
        assert files.manifests[merged.step.artifact].kind is ArtifactKind.STEP
        assert files.manifests[merged.outer].kind is ArtifactKind.OUTER
        made = files.path(merged.head).read_bytes()
        files.path(merged.head).unlink()
        rebuilding = RebuildJob(merged.head, merged.step, SCHEMA, "int8")
        await math.rebuild(rebuilding)
        assert files.path(merged.head).read_bytes() == made
        with pytest.raises(RemoteError, match="does not come out of its step"):
            await math.rebuild(replace(rebuilding, head=base))
        assert files.leftovers() == []

    with_math(tmp_path, body)


def test_an_update_is_inspected(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        good, bad = await files.add(1, 2, 3), await files.add(1, float("nan"), 3)
        assert (await math.inspect(InspectJob(good, good, SCHEMA))).verdict is Verdict.ACCEPTED
        found = await math.inspect(InspectJob(bad, good, SCHEMA))
        assert found.verdict is Verdict.NONFINITE
        assert "'w'" in found.detail

    with_math(tmp_path, body)


def test_the_self_test_passes_here(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        port: Math = math
        await port.self_test()
        assert files.leftovers() == []

    with_math(tmp_path, body)


def test_what_is_wrong_with_an_input_comes_back_as_its_error_and_the_process_lives(
    tmp_path: Path,
) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        good, bad = await files.add(1, 2, 3), await files.add(1, float("inf"), 3)
        process = math.process_id
        with pytest.raises(RemoteError, match="not finite"):
            await math.merge(job_of(good, bad))
        with pytest.raises(StoreError, match="not here"):
            await math.merge(job_of(good, ArtifactId(bytes(32))))
        files.path(bad).unlink()
        with pytest.raises(StoreError, match="there is no such file"):
            await math.inspect(InspectJob(bad, good, SCHEMA))
        assert math.process_id == process
        assert files.leftovers() == []

    with_math(tmp_path, body)


def test_calls_made_together_are_answered_each_with_its_own_answer(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        updates = [await files.add(number, 0, 0) for number in range(8)]
        order: list[ArtifactId] = []

        async def ask(update: ArtifactId) -> None:
            found = await math.inspect(InspectJob(update, update, SCHEMA))
            assert found.artifact == update
            order.append(update)

        async with trio.open_nursery() as nursery:
            for update in updates:
                nursery.start_soon(ask, update)
        assert sorted(order) == sorted(updates)

    with_math(tmp_path, body)


def test_a_process_that_died_while_idle_is_replaced_unnoticed(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        update = await files.add(1, 2, 3)
        first = math.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert gone(first)
        assert (await math.inspect(InspectJob(update, update, SCHEMA))).verdict is Verdict.ACCEPTED
        assert math.process_id not in (None, first)

    with_math(tmp_path, body)


def test_a_process_that_dies_in_a_call_is_named_with_its_cause_and_replaced(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        update = await files.add(1, 2, 3)
        first = math.process_id
        assert first is not None
        os.kill(first, signal.SIGSTOP)  # so that it is surely in the call when it dies
        async with trio.open_nursery() as nursery:

            async def fail() -> None:
                with pytest.raises(UnreachableError, match=r"ended in inspect: SIGSEGV"):
                    await math.inspect(InspectJob(update, update, SCHEMA))

            nursery.start_soon(fail)
            await trio.testing.wait_all_tasks_blocked()
            os.kill(first, signal.SIGSEGV)
            os.kill(first, signal.SIGCONT)
        assert (await math.inspect(InspectJob(update, update, SCHEMA))).verdict is Verdict.ACCEPTED

    with_math(tmp_path, body)


def test_a_process_that_hangs_past_the_deadline_is_killed(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        update = await files.add(1, 2, 3)
        first = math.process_id
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(UnreachableError, match=r"more than 0\.1 s for inspect: killed"):
            await math.inspect(InspectJob(update, update, SCHEMA))
        assert gone(first)
        assert math.process_id is None

    with_math(tmp_path, body, MathConfig(deadline_s=0.1))


def test_i12_other_tasks_run_while_a_call_is_in_the_process(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        update = await files.add(1, 2, 3)
        process = math.process_id
        assert process is not None
        os.kill(process, signal.SIGSTOP)
        answered = trio.Event()

        async def ask() -> None:
            await math.inspect(InspectJob(update, update, SCHEMA))
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert not answered.is_set()  # we run, and the call is still out
            os.kill(process, signal.SIGCONT)
        assert answered.is_set()
        assert math.process_id == process

    with_math(tmp_path, body)


def test_a_cancelled_call_leaves_a_usable_adapter_and_no_file(tmp_path: Path) -> None:
    async def body(math: MathProcess, files: Directory) -> None:
        base, update = await files.add(0, 0, 0), await files.add(1, 2, 3)
        first = math.process_id
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(math.merge, job_of(base, update))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert gone(first)
        assert files.leftovers() == []
        assert (await math.merge(job_of(base, update))).rule == "mean"

    with_math(tmp_path, body)


def test_no_process_is_left_when_the_adapter_closes(tmp_path: Path) -> None:
    left: list[int | None] = []

    async def body(math: MathProcess, files: Directory) -> None:
        await math.self_test()
        left.append(math.process_id)

    with_math(tmp_path, body)
    assert left[0] is not None
    with pytest.raises(ProcessLookupError):
        os.kill(left[0], 0)


def test_too_little_memory_is_said_so(tmp_path: Path) -> None:
    count = 2**15
    schema = Schema((TensorSpec("x", "F32", (count,), False),))

    async def body(math: MathProcess, files: Directory) -> None:
        path = files.temporary(".new")
        with ArtifactWriter(path, ArtifactKind.UPDATE, schema) as writer:
            writer.write(np.zeros(count, "<f4"))
            artifact = await files.adopt(path, writer.finish())
        # One update many times: its chunks together are more than the process may take. Trimming
        # needs all of them at once; the mean needs one at a time.
        inputs = tuple(
            MergeInput(UpdateId(number.to_bytes(2)), artifact, 1) for number in range(2000)
        )
        rule = MergeRule("trimmed_mean", MILLION, MILLION // 4)
        job = MergeJob(artifact, None, schema, inputs, None, rule, OuterRule("mean", MILLION, 0))
        with pytest.raises(UsageError, match="memory limit"):
            await math.merge(job)

    with_math(tmp_path, body, MathConfig(memory_bytes=150 * 2**20))


PARENT = """
import sys, trio
from pathlib import Path
from p2pd.io.math import MathConfig, MathProcess

async def main():
    async with MathProcess.open(None, MathConfig()) as math:
        await math.self_test()
        print(math.process_id, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def test_the_process_dies_with_a_daemon_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    assert gone(child)
