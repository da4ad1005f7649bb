"""The worker port: the user's workload in a process of its own, over inherited pipes.

Every call has a deadline. A process that hangs, dies or is killed is reaped with its whole group,
its cause is named, and the next call starts a new one. Units: seconds; artifacts pass as files.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import trio

from p2pd.core.artifact import Manifest
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import LocalError, RemoteError, UnreachableError, WorkloadError
from p2pd.io.files import ArtifactFiles
from p2pd.io.frames import read_frame, write_frame
from p2pd.workload.protocol import (
    LIMIT_BYTES,
    Answer,
    BuildCall,
    Call,
    Done,
    EvaluateCall,
    Failure,
    InitialCall,
    Outcome,
    Request,
    TrainCall,
)

ANSWERS = 16
"""Waiting to be taken. Calls come one by one, so that more than one is an answer come too late."""
LINE_BYTES = 2000
"""Of the user's output; the rest of a longer line is a line of its own."""
DRAIN_S = 2.0
"""How long the output of a process that has ended is read on."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

T = TypeVar("T")
Log = Callable[[str], None]

log = logging.getLogger("p2pd.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    module: str
    """Importable name of the workload."""
    config: str = "{}"
    """JSON object handed to build(config)."""
    paths: tuple[Path, ...] = ()
    """Directories searched for the module before all others."""
    own: Path | None = None
    """The trainer's directory, for what must survive its process."""
    threads: int = 1
    """Of torch."""
    memory_bytes: int | None = None
    """Limit of the data that the process holds; None for no limit."""
    build_s: float = 180.0
    """Deadline to import and build: torch alone takes seconds on a small machine."""
    train_s: float = 600.0
    """Deadline of one lease."""
    evaluate_s: float = 180.0
    grace_s: float = 5.0
    """How long a call that is no longer wanted may take to stop before the process is killed."""


class WorkerProcess:
    """Implements p2pd.ports.Worker. The process starts with the first call that needs it."""

    def __init__(self, settings: WorkerSettings, files: ArtifactFiles, log: Log) -> None:
        """log gets each line that the user's code prints; it must not block."""
        self._settings = settings
        self._files = files
        self._log = log
        self._nursery: trio.Nursery | None = None
        self._child: _Child | None = None
        self._lock = trio.Lock()
        self._info: WorkloadInfo | None = None
        self._number = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves calls until cancelled. In the main thread: the process dies with its thread."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def info(self) -> WorkloadInfo:
        async with self._lock:
            return await self._ready()

    async def initial(self) -> ArtifactId:
        """The head that a revision of this workload and config starts from; kept in the blob store.

        Raises:
            WorkloadError: as all calls.
            StoreError: no room for it.
        """
        async with self._lock:
            await self._ready()
            async with self._files.output(".safetensors", 0) as output:  # of a size not known yet
                call = InitialCall(os.fsencode(output))
                body = await self._call(Call.INITIAL, call, self._settings.build_s)
                return await self._files.adopt(output, _parse(Manifest, body))

    async def train(self, job: TrainJob) -> TrainResult:
        async with self._lock:
            await self._ready()
            base = await self._files.sound(job.base)
            manifest = self._files.manifest(job.base)
            size_bytes = 0 if manifest is None else manifest.size_bytes  # no update is much larger
            if job.codec != "f32":
                size_bytes *= 2  # what the codec loses lies on the same disk
            own = os.fsencode(self._settings.own.absolute()) if self._settings.own else b""
            async with self._files.output(".safetensors", size_bytes) as output:
                call = TrainCall(job, os.fsencode(base), os.fsencode(output), own)
                body = await self._call(Call.TRAIN, call, self._settings.train_s)
                done = _parse(Done, body)
                manifest = replace(done.manifest, owner=job.owner)
                artifact = await self._files.adopt(output, manifest)
        return TrainResult(
            artifact,
            manifest.size_bytes,
            done.samples,
            done.steps,
            done.loss,
            done.duration_us / 1e6,
        )

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        async with self._lock:
            await self._ready()
            call = EvaluateCall(job, os.fsencode(await self._files.sound(job.head)))
            return _parse(
                Evaluation, await self._call(Call.EVALUATE, call, self._settings.evaluate_s)
            )

    async def _ready(self) -> WorkloadInfo:
        """A process that has built the workload."""
        if self._nursery is None:
            raise LocalError("the worker is not running")
        if self._child is None or self._child.ended.is_set():
            try:
                self._child = _Child(self._settings, self._log)
            except OSError as error:
                raise WorkloadError(f"the workload's process cannot be started: {error}") from error
            self._nursery.start_soon(self._child.attend)
        child = self._child
        if child.info is None:
            settings = self._settings
            call = BuildCall(settings.module, settings.config, settings.threads)
            info = _parse(WorkloadInfo, await self._call(Call.BUILD, call, settings.build_s))
            if self._info is not None and info != self._info:
                raise WorkloadError(
                    f"workload {settings.module} was changed on disk: restart to use it as it is"
                )
            child.info = self._info = info
        return child.info

    async def _call(self, call: Call, content: object, deadline_s: float) -> bytes:
        """Asks the process that is there, and waits for its answer or its end."""
        child = self._child
        assert child is not None  # callers hold the lock, after _ready
        self._number += 1
        answer: Answer | None = None
        killed = False
        try:
            with trio.move_on_after(deadline_s):
                await self._send(child, Request(self._number, call, encode(content)))
                answer = await child.answer(self._number)
        finally:
            if answer is None and not child.ended.is_set():  # cancelled, or past the deadline
                with trio.CancelScope(shield=True):
                    killed = await self._call_off(child, self._number)
        if answer is None:
            raise WorkloadError(
                f"{call.name.lower()} passed its deadline of {deadline_s:g} s"
                + (" and did not stop: its process was killed" if killed else "")
                + ": raise it in [worker], or have it do less"
            )
        if answer.outcome == Outcome.DONE:
            return answer.body
        child.info = None
        raise WorkloadError(_parse(Failure, answer.body).message)

    async def _send(self, child: "_Child", request: Request) -> None:
        """A frame is sent whole or not at all: half of one would garble all that follows."""
        with trio.move_on_after(self._settings.grace_s, shield=True) as scope:
            await child.send(request)
        if scope.cancelled_caught:
            await child.kill("it did not read its requests", self._settings.grace_s)

    async def _call_off(self, child: "_Child", number: int) -> bool:
        """Has a call stopped between two steps, else by force: whether it took force."""
        answer: Answer | None = None
        with trio.move_on_after(self._settings.grace_s), suppress(WorkloadError):
            await child.send(Request(number, Call.CANCEL, b""))
            answer = await child.answer(number)
        if answer is None:
            await child.kill("it did not stop when told to", self._settings.grace_s)
        elif answer.outcome == Outcome.FAILED:
            child.info = None
        return answer is None


class _Child:
    """One process, from its start to its end."""

    def __init__(self, settings: WorkerSettings, log: Log) -> None:
        self.info: WorkloadInfo | None = None
        self.ended = trio.Event()
        self._module = settings.module
        self._log = log
        self._last_line = ""
        self._killed_why = ""
        self._cause = ""
        self._exited = False
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        log_read, log_write = os.pipe()
        self._requests = trio.lowlevel.FdStream(request_write)
        self._answers = trio.lowlevel.FdStream(answer_read)
        self._output = trio.lowlevel.FdStream(log_read)
        self._put, self._taken = trio.open_memory_channel[Answer](ANSWERS)
        variables = dict.fromkeys(THREAD_VARIABLES, str(settings.threads))
        try:
            # Not trio.open_process: it starts from a helper thread, and when that thread ends, the
            # kernel takes it for the death of the parent and kills the child.
            self._process = subprocess.Popen(
                _command(settings, request_read, answer_write),
                stdin=subprocess.DEVNULL,
                stdout=log_write,
                stderr=log_write,
                pass_fds=(request_read, answer_write),
                start_new_session=True,
                env={**os.environ, **variables},
            )
        finally:
            for descriptor in (request_read, answer_write, log_write):
                os.close(descriptor)

    async def attend(self) -> None:
        """Carries answers and output until the process has ended, and says why it did."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry_answers)
                nursery.start_soon(self._carry_output)
                await self._exit()
                self._exited = True
                self._kill_group()  # what it has started itself
                nursery.cancel_scope.deadline = trio.current_time() + DRAIN_S
        finally:
            with trio.CancelScope(shield=True):
                await self._reap()

    async def send(self, request: Request) -> None:
        # If it has ended, whoever waits for the answer is told why.
        with suppress(UnreachableError, trio.ClosedResourceError):
            await write_frame(self._requests, encode(request))

    async def answer(self, number: int) -> Answer:
        """Raises WorkloadError, with the cause, if the process ends instead."""
        async for answer in self._taken:
            if answer.number == number:
                return answer
        raise WorkloadError(self._cause)

    async def kill(self, why: str, patience_s: float) -> None:
        self._killed_why = self._killed_why or why
        self._kill_group()
        with trio.move_on_after(patience_s):
            await self.ended.wait()

    async def _exit(self) -> None:
        """Waits for the end of the process, without reaping it: its group keeps its number."""
        if sys.platform == "linux":
            descriptor = os.pidfd_open(self._process.pid)
            try:
                await trio.lowlevel.wait_readable(descriptor)
            finally:
                os.close(descriptor)
        else:
            await trio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)

    def _kill_group(self) -> None:
        if self._process.returncode is None:  # once reaped, its number may be another's
            # Nobody may be left; macOS says so by EPERM.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _reap(self) -> None:
        if not self._exited:
            self._killed_why = self._killed_why or "its daemon is stopping"
            self._kill_group()
            await self._exit()
        code = self._process.wait()
        self._cause = self._describe(code)
        if not self._killed_why:  # whoever had it killed says why
            log.warning("%s: the next call starts another", self._cause)
        for stream in (self._requests, self._answers, self._output):
            await stream.aclose()
        self._put.close()
        self.ended.set()

    def _describe(self, code: int) -> str:
        if self._killed_why:
            how = f"was killed: {self._killed_why}"
        elif code == -signal.SIGKILL:
            how = "was killed (SIGKILL): probably out of memory"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        said = f"; it last said: {self._last_line}" if self._last_line and code > 0 else ""
        return f"the process of workload {self._module} {how}{said}"

    async def _carry_answers(self) -> None:
        try:
            while (data := await read_frame(self._answers, LIMIT_BYTES)) is not None:
                await self._put.send(decode(Answer, data, limit_bytes=LIMIT_BYTES))
        except RemoteError as error:
            self._killed_why = self._killed_why or f"it wrote no answer but other bytes ({error})"
            self._kill_group()

    async def _carry_output(self) -> None:
        rest = b""
        async for part in self._output:
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                self._say(line)
            if len(rest) > LINE_BYTES:
                self._say(rest)
                rest = b""
        self._say(rest)

    def _say(self, line: bytes) -> None:
        # A progress bar overwrites its line again and again: what counts is its last state.
        line = line.rstrip(b"\r").rpartition(b"\r")[2].rstrip()
        for start in range(0, len(line), LINE_BYTES):
            self._last_line = line[start : start + LINE_BYTES].decode(errors="replace")
            self._log(self._last_line)


def _command(settings: WorkerSettings, requests: int, answers: int) -> list[str]:
    command = [sys.executable, "-u", "-m", "p2pd.workload.serve", "--parent", str(os.getpid())]
    command += ["--requests", str(requests), "--answers", str(answers)]
    command += ["--memory-bytes", str(settings.memory_bytes or 0)]
    for path in settings.paths:
        command += ["--path", str(path)]
    return command


def _parse(kind: type[T], data: bytes) -> T:
    try:
        return decode(kind, data, limit_bytes=LIMIT_BYTES)
    except RemoteError as error:
        raise WorkloadError(f"the workload's process gave a malformed answer: {error}") from error
