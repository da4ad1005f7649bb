"""The math process, seen from the daemon: implements the Math port.

One call at a time, in the order in which they were made. A process that dies, hangs or is cancelled
in a call is killed with its whole group, and a new one is started for the next call.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO

import trio

from p2pd.core.artifact import Manifest
from p2pd.core.codecs import carries_values, outer_schema
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId
from p2pd.core.work import HeadStep, Inspection, InspectJob, Merged, MergeJob, RebuildJob
from p2pd.errors import LocalError, RemoteError, UnreachableError
from p2pd.io.durable import temporary_directory
from p2pd.io.endings import ending
from p2pd.io.files import ArtifactFiles
from p2pd.io.frames import read_frame, write_frame
from p2pd.tensors.calls import (
    ERRORS,
    FRAME_BYTES_MAX,
    Answer,
    Call,
    CallKind,
    InputFile,
    MergeAnswer,
    Outcome,
)
from p2pd.tensors.layout import layout_of

REAP_S = 5.0
"""How long a killed process may take to go; only a failing disk can hold it longer."""
THREADS_MOST = 4
"""By default: more wait for memory."""
COMPLAINT_BYTES = 2000
"""Of the end of what a dead process wrote to its standard error."""


ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Of glibc, mallopt(3): a chunk's arrays are used again instead of mapped anew, page by page, each time.
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MathConfig:
    deadline_s: float = 600.0
    """For one call. Merging 50 updates of 500 MB takes minutes; beyond, it is taken for hung."""
    memory_bytes: int = 2 * 2**30
    """What it may allocate. Merging takes a few MB per update, however large the model."""
    threads: int = min(THREADS_MOST, os.cpu_count() or 1)
    """That merge. They change no bit."""


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    calls: trio.lowlevel.FdStream
    answers: trio.lowlevel.FdStream
    complaints: IO[bytes]


class MathProcess:
    """Use open(). A call raises UnreachableError, with the cause, when the process died or hung."""

    def __init__(self, files: ArtifactFiles, config: MathConfig) -> None:
        self._files = files
        self._config = config
        self._turn = trio.Lock()
        self._child: _Child | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, files: ArtifactFiles, config: MathConfig) -> AsyncIterator["MathProcess"]:
        """Starts the process; leaving kills it.

        Must be entered on the main thread: the process dies with the thread that started it.
        """
        self = cls(files, config)
        self._child = _start(config)
        try:
            yield self
        finally:
            await self._kill()

    @property
    def process_id(self) -> int | None:
        """None between the end of one process and the start of the next."""
        return self._child.process.pid if self._child is not None else None

    async def inspect(self, job: InspectJob) -> Inspection:
        base = () if carries_values(job.codec) else (job.base,)
        files = await self._inputs((job.artifact, *base))
        result = await self._call(Call(CallKind.INSPECT, encode(job), files, ""))
        inspection = decode(Inspection, result)
        if inspection.artifact != job.artifact:
            raise LocalError("the math process inspected another artifact than it was given")
        return inspection

    async def merge(self, job: MergeJob) -> Merged:
        before = () if job.outer is None else (job.outer,)
        updates = (entry.artifact for entry in job.inputs)
        origins = (entry.base or job.base for entry in job.inputs)
        files = await self._inputs((job.base, *before, *updates, *origins))
        base = self._files.manifest(job.base)
        size_bytes = 0 if base is None else base.size_bytes
        state_bytes = 0
        if job.state_parts:
            schema = outer_schema(job.schema, job.state_parts)
            state_bytes = layout_of(schema.tensors).size_bytes
        async with (
            self._files.output(".merging", size_bytes) as output,
            self._files.output(".outer", state_bytes) as state,
            self._files.output(".step", size_bytes if job.head_codec != "f32" else 0) as step,
        ):
            paths = [str(path.absolute()) for path in (output, state, step)]
            result = await self._call(Call(CallKind.MERGE, encode(job), files, *paths))
            answer = decode(MergeAnswer, result, limit_bytes=FRAME_BYTES_MAX)
            head = await self._files.adopt(output, answer.manifest)
            outer = None if answer.outer is None else await self._files.adopt(state, answer.outer)
            made_of = None
            if answer.step is not None:
                made_of = HeadStep(job.base, await self._files.adopt(step, answer.step))
        merged = answer.merged
        if (head, outer, made_of) != (merged.head, merged.outer, merged.step):
            raise LocalError(f"the store names {head.hex()} what the merge named otherwise")
        _require_merged(merged, job)
        return merged

    async def rebuild(self, job: RebuildJob) -> None:
        base = self._files.manifest(job.step.base)
        files = await self._inputs((job.step.base, job.step.artifact))
        size_bytes = 0 if base is None else base.size_bytes
        async with self._files.output(".rebuilding", size_bytes) as output:
            call = Call(CallKind.REBUILD, encode(job), files, str(output.absolute()))
            result = await self._call(call)
            manifest = decode(Manifest, result, limit_bytes=FRAME_BYTES_MAX)
            if await self._files.adopt(output, manifest) != job.head:
                raise LocalError("the math process rebuilt another head than it was asked for")

    async def self_test(self) -> None:
        await self._call(Call(CallKind.SELF_TEST, b"", (), ""))

    async def _inputs(self, artifacts: tuple[ArtifactId, ...]) -> tuple[InputFile, ...]:
        wanted = sorted(set(artifacts))
        paths = await self._files.all_sound(wanted)
        return tuple(
            InputFile(artifact, str(path.absolute()))
            for artifact, path in zip(wanted, paths, strict=True)
        )

    async def _call(self, call: Call) -> bytes:
        async with self._turn:
            answer = await self._exchange(call)
        if answer.outcome is not Outcome.DONE:
            raise ERRORS[answer.outcome](answer.detail)
        return answer.result

    async def _exchange(self, call: Call) -> Answer:
        name = call.kind.name.lower()
        answer = None
        try:
            with trio.move_on_after(self._config.deadline_s):
                answer = await self._attempt(encode(call), name)
        except RemoteError as error:
            raise UnreachableError(f"the math process broke off in {name}: {error}") from error
        finally:
            if (
                answer is None
            ):  # hung, dead, or the caller was cancelled: what it says next is stale
                await self._kill()
        if answer is None:
            limit = f"{self._config.deadline_s:g} s"
            raise UnreachableError(f"the math process took more than {limit} for {name}: killed")
        return answer

    async def _attempt(self, frame: bytes, name: str) -> Answer:
        child = await self._ask(frame)
        reply = await read_frame(child.answers, FRAME_BYTES_MAX)
        if reply is None:
            raise UnreachableError(f"the math process ended in {name}: {await self._kill()}")
        return decode(Answer, reply, limit_bytes=FRAME_BYTES_MAX)

    async def _ask(self, frame: bytes) -> _Child:
        """Sends a call; starts a process if there is none, or if the last one died while idle."""
        if self._child is not None:
            try:
                await write_frame(self._child.calls, frame)
            except UnreachableError:
                await self._kill()
            else:
                return self._child
        self._child = _start(self._config)
        await write_frame(self._child.calls, frame)
        return self._child

    async def _kill(self) -> str:
        """Ends the process and all that it started; returns how it ended."""
        child, self._child = self._child, None
        if child is None:
            return "it had ended before"
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(child.calls)
            await trio.aclose_forcefully(child.answers)
            # Not reaped yet, so its id is still its own, dead or alive.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.process.pid, signal.SIGKILL)
            with trio.move_on_after(REAP_S):
                await trio.to_thread.run_sync(child.process.wait, abandon_on_cancel=True)
        with child.complaints as complaints:
            return _cause(child.process.returncode, _last_line(complaints))


def _start(config: MathConfig) -> _Child:
    # subprocess.Popen, not trio.open_process: that starts it in a thread of its own, and when that
    # thread ends, PR_SET_PDEATHSIG kills the process.
    complaints = tempfile.TemporaryFile(dir=temporary_directory())  # noqa: SIM115  closed when the process is killed
    call_read, call_write = os.pipe()
    answer_read, answer_write = os.pipe()
    numbers = [str(call_read), str(answer_write), str(config.memory_bytes)]
    numbers.append(str(config.threads))
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "p2pd.tensors.serve", *numbers],
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            pass_fds=(call_read, answer_write),
            start_new_session=True,
            env={**os.environ, **ENVIRONMENT},
        )
    except OSError as error:
        os.close(call_write)
        os.close(answer_read)
        complaints.close()
        raise UnreachableError(f"the math process cannot be started: {error.strerror}") from error
    finally:
        os.close(call_read)
        os.close(answer_write)
    streams = trio.lowlevel.FdStream(call_write), trio.lowlevel.FdStream(answer_read)
    return _Child(process, *streams, complaints)


def _require_merged(merged: Merged, job: MergeJob) -> None:
    """Raises LocalError: it is no merge of this job."""
    norms = len(job.inputs) if merged.measured is None else len(merged.measured.norms)
    kept = merged.outer is not None, merged.step is not None
    wanted = job.state_parts > 0, job.head_codec != "f32"
    if (len(merged.clips), norms, kept) != (len(job.inputs), len(job.inputs), wanted):
        raise LocalError("the math process merged other updates than it was given")


def _cause(status: int | None, complaint: str) -> str:
    if status is None:
        return f"killed, but it did not end within {REAP_S:g} s"
    how = ending(status)
    return f"{how}: {complaint}" if complaint else how


def _last_line(complaints: IO[bytes]) -> str:
    size_bytes = complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, size_bytes - COMPLAINT_BYTES))
    lines = complaints.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
