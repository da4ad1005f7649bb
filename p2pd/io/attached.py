"""The worker port, where the user's own script is the process that trains: it has come over the control socket.

What it is asked and what it answers are a worker's frames. The script is its owner's: it is never killed, only
left. Units: seconds.
"""

from collections.abc import Callable
from contextlib import suppress

import trio

from p2pd.core.encoding import decode, encode
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import RemoteError, UnreachableError, UsageError, WorkloadError, printable
from p2pd.io.files import ArtifactFiles
from p2pd.io.frames import read_frame, write_frame
from p2pd.io.worker import FAILURE_CHARACTERS, build_call, parse, train_by
from p2pd.io.worker_child import WorkerSettings
from p2pd.workload.protocol import (
    LIMIT_BYTES,
    Answer,
    Call,
    Failure,
    Outcome,
    Request,
)

ANSWERS = 16
"""Waiting to be taken. Calls come one by one, so that more than one is an answer come too late."""
NOBODY = "no script drives it: call p2pd.attach, or set worker.attached = false"


class Script:
    """One script that drives a trainer, from its coming to its end."""

    def __init__(self, stream: trio.SocketStream, process: int) -> None:
        self.process = process
        self.info: WorkloadInfo | None = None
        self.ended = trio.Event()
        self.listens = trio.Event()
        """It has read the answer to its line, and takes frames."""
        self._stream = stream
        self._sending = trio.Lock()
        self._put, self._taken = trio.open_memory_channel[Answer](ANSWERS)

    async def attend(self) -> None:
        """Carries its answers until it has ended, or says what is none."""
        try:
            with suppress(RemoteError, trio.BrokenResourceError, trio.ClosedResourceError):
                while (data := await read_frame(self._stream, LIMIT_BYTES)) is not None:
                    if not data:  # an empty one
                        self.listens.set()
                    else:
                        answer = decode(Answer, data, limit_bytes=LIMIT_BYTES)
                        self._put.send_nowait(answer)
        except trio.WouldBlock:
            return  # it answers what nobody has asked
        finally:
            self._put.close()
            self.ended.set()

    async def send(self, request: Request) -> None:
        """A frame is sent whole or not at all; a script that has ended is told nothing."""
        with suppress(UnreachableError, trio.ClosedResourceError), trio.CancelScope(shield=True):
            async with self._sending:
                await write_frame(self._stream, encode(request))

    async def answer(self, number: int) -> Answer:
        """Raises WorkloadError if it ends instead."""
        async for answer in self._taken:
            if answer.number == number:
                return answer
        raise WorkloadError(
            f"the script that drove this trainer (process {self.process}) has ended"
        )

    async def leave(self) -> None:
        await self._stream.aclose()


class AttachedWorker:
    """Implements p2pd.ports.Worker."""

    def __init__(self, settings: WorkerSettings, files: ArtifactFiles) -> None:
        self.settings = settings
        self.trained: dict[int, TrainResult] = {}
        """What became of it nobody has said yet, by the height of its plan."""
        self.changed: Callable[[], object] = lambda: None
        """Called when a script takes over, and when it has ended."""
        self._files = files
        self._script: Script | None = None
        self._lock = trio.Lock()
        self._came = trio.Event()
        self._number = 0
        self._works = False

    @property
    def resting(self) -> str:
        """Why nothing can be trained; empty where a script takes leases."""
        return "" if self._works else NOBODY

    def require_free(self) -> None:
        """Raises UsageError: a script drives this trainer."""
        if self._script is not None:
            raise UsageError(
                f"another script (process {self._script.process}) drives this trainer: end it first"
            )

    def take(self, script: Script) -> None:
        """Raises UsageError: another one drives this trainer."""
        self.require_free()
        self._script = script
        self._came.set()

    def begin(self) -> None:
        """Its workload is the right one: from now on it takes leases."""
        self._works = True
        self.changed()

    def end(self) -> None:
        self._script, self._works, self._came = None, False, trio.Event()
        self.trained.clear()
        self.changed()

    async def info(self) -> WorkloadInfo:
        """Waits for a script."""
        await self._came.wait()
        async with self._lock:
            return await self._ready()

    async def train(self, job: TrainJob) -> TrainResult:
        async with self._lock:
            info = await self._ready()
            result = await train_by(self._ask, self.settings, self._files, job, info)
            self.trained[job.height] = result
            return result

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        raise WorkloadError(f"head {job.head.hex()[:10]}: a script that trains does not evaluate")

    async def _ready(self) -> WorkloadInfo:
        script = self._script
        if script is None:
            raise WorkloadError(NOBODY)
        if script.info is None:
            body = await self._ask(Call.BUILD, build_call(self.settings), self.settings.build_s)
            script.info = parse(WorkloadInfo, body)
        return script.info

    async def _ask(self, call: Call, content: object, deadline_s: float) -> bytes:
        script = self._script
        if script is None:
            raise WorkloadError(NOBODY)
        self._number += 1
        answer: Answer | None = None
        try:
            with trio.move_on_after(deadline_s):
                await script.send(Request(self._number, call, encode(content)))
                answer = await script.answer(self._number)
        finally:
            if answer is None and not script.ended.is_set():  # cancelled, or past the deadline
                with trio.CancelScope(shield=True):
                    await self._call_off(script)
        if answer is None:
            raise WorkloadError(
                f"the script (process {script.process}) did not {call.name.lower()} within "
                f"{deadline_s:g} s: raise worker.{call.name.lower()}_s, or have it do less"
            )
        if answer.outcome == Outcome.DONE:
            return answer.body
        script.info = None
        raise WorkloadError(printable(parse(Failure, answer.body).message)[:FAILURE_CHARACTERS])

    async def _call_off(self, script: Script) -> None:
        """It is told, and left if it does not stop: it may be in the midst of anything."""
        with trio.move_on_after(self.settings.grace_s), suppress(WorkloadError):
            await script.send(Request(self._number, Call.CANCEL, b""))
            await script.answer(self._number)
            return
        await script.leave()
