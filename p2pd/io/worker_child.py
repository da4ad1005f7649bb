"""One process of the workload, from its start to its end: what is asked, what it says, why it ended.

Units: seconds.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from p2pd.core.encoding import decode, encode
from p2pd.core.work import WorkloadInfo
from p2pd.errors import RemoteError, UnreachableError, WorkloadError, printable
from p2pd.io.endings import Watch, place_of
from p2pd.io.frames import read_frame, write_frame
from p2pd.workload.page import Seen, look, new_page
from p2pd.workload.protocol import AS_BUILT, LIMIT_BYTES, Answer, Devices, Request

ANSWERS = 16
"""Waiting to be taken. Calls come one by one, so that more than one is an answer come too late."""
LINE_BYTES = 2000
"""Of the user's output; the rest of a longer line is a line of its own."""
DRAIN_S = 2.0
"""How long the output of a process that has ended is read on."""
KEEPER_S = 5.0
"""How long the keeper of a process may take to kill what lies below: without it, only the group is killed."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

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
    data: tuple[Path, ...] = ()
    """Directories with shard files of data sets."""
    own: Path | None = None
    """The trainer's directory, for what must survive its process."""
    threads: int = 1
    """Of torch."""
    devices: Devices = AS_BUILT
    """Where to compute, on how many of them."""
    memory_bytes: int | None = None
    """Limit of the data that the process holds; None for no limit."""
    share: float = 1.0
    """Of the time that may be spent on steps; the rest of it is rest, between them."""
    build_s: float = 180.0
    """Deadline to import and build: torch alone takes seconds on a small machine."""
    train_s: float = 600.0
    """Deadline of one lease."""
    evaluate_s: float = 180.0
    grace_s: float = 5.0
    """How long a call that is no longer wanted may take to stop before the process is killed."""
    rest_s: float = 1.0
    """Pause before the workload is built again after its second failure in a row; it doubles with each further one."""
    rest_most_s: float = 60.0


class Child:
    """One process, from its start to its end."""

    def __init__(self, settings: WorkerSettings, log: Log) -> None:
        self.info: WorkloadInfo | None = None
        self.ended = trio.Event()
        self._module = settings.module
        self._watch = Watch.over(settings.module)
        self._log = log
        self._last_line = ""
        self._killed_why = ""
        self._cause = ""
        self._gone = trio.Event()
        self._page = new_page()
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
                _command(settings, request_read, answer_write, self._page),
                stdin=subprocess.DEVNULL,
                stdout=log_write,
                stderr=log_write,
                pass_fds=(request_read, answer_write, self._page),
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
                self._gone.set()
                self._kill_group()  # what it has started itself, where its keeper did not see to it
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

    def seen(self) -> Seen:
        """How far its call is; to be asked while it has not been reaped."""
        return look(self._page)

    def place(self, seen: Seen) -> str:
        """` at FILE:LINE` of the user's code."""
        return place_of(seen.frames, self._module)

    async def kill(self, why: str, patience_s: float) -> None:
        self._killed_why = self._killed_why or why
        self._end_all()
        with trio.move_on_after(patience_s):
            await self.ended.wait()
            return
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

    def _end_all(self) -> None:
        """Has its keeper kill all that lies below, whatever groups it is in."""
        if sys.platform == "linux":
            self._process.terminate()
        else:
            self._kill_group()

    def _kill_group(self) -> None:
        if self._process.returncode is None:  # once reaped, its number may be another's
            # Nobody may be left; macOS says so by EPERM.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _reap(self) -> None:
        if not self._gone.is_set():
            self._killed_why = self._killed_why or "its daemon is stopping"
            self._end_all()
            with trio.move_on_after(KEEPER_S):
                await self._exit()
                self._gone.set()
        if not self._gone.is_set():
            self._kill_group()
            await self._exit()
        self._cause = self._describe(self._process.wait())
        if not self._killed_why:  # whoever had it killed says why
            log.warning("%s: the next call starts another", self._cause)
        for stream in (self._requests, self._answers, self._output):
            await stream.aclose()
        os.close(self._page)
        self._put.close()
        self.ended.set()

    def _describe(self, code: int) -> str:
        how = self._watch.describe(code, self.seen().frames)
        if self._killed_why:
            how = f"was killed: {self._killed_why}"
        said = (
            f"; it last said: {printable(self._last_line)}" if self._last_line and code > 0 else ""
        )
        several = self.info is not None and len(self.info.devices) > 1
        who = "main worker failed: " if several else ""
        return f"{who}the process of workload {self._module} {how}{said}"

    async def _carry_answers(self) -> None:
        try:
            while (data := await read_frame(self._answers, LIMIT_BYTES)) is not None:
                await self._put.send(decode(Answer, data, limit_bytes=LIMIT_BYTES))
            with trio.move_on_after(DRAIN_S):  # its end closes the pipe as well
                await self._gone.wait()
                return
            self._give_up("it closed the pipe through which it answers")
        except RemoteError as error:
            self._give_up(f"it wrote no answer but other bytes ({error})")

    def _give_up(self, why: str) -> None:
        self._killed_why = self._killed_why or why
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


def _command(settings: WorkerSettings, requests: int, answers: int, page: int) -> list[str]:
    command = [sys.executable, "-u", "-m", "p2pd.workload.serve", "--parent", str(os.getpid())]
    command += ["--requests", str(requests), "--answers", str(answers), "--page", str(page)]
    command += ["--memory-bytes", str(settings.memory_bytes or 0)]
    command += ["--share", str(settings.share)]
    for path in settings.paths:
        command += ["--path", str(path)]
    for path in settings.data:
        command += ["--data", str(path.absolute())]
    return command
