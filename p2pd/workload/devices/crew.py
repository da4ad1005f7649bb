"""The main worker's fellows: started, asked, watched, ended. One lease fails as soon as one of them does.

A thread watches them while the main worker trains, since that may be waiting for the one that died, in a
collective that never ends. Units: seconds.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from p2pd.core.encoding import decode, encode
from p2pd.errors import RemoteError, WorkloadError
from p2pd.io.endings import Watch
from p2pd.lifeline import tied
from p2pd.tensors.frames import read_frame, write_frame
from p2pd.workload.contract import Cancelled
from p2pd.workload.page import look, new_page
from p2pd.workload.protocol import LIMIT_BYTES, Answer, Call, Failure, Outcome, Request

END_S = 2.0
"""How long a fellow whose connection has ended may take to end itself, so that it can be said how."""
FREE_S = 3.0
"""How long the main worker may take to get out of what it shared with one that failed; then it is ended."""
CAUSE_S = 5.0
"""How long it waits, out of there, to hear why."""
FELLOW = "p2pd.workload.devices.fellow"

GiveUp = Callable[[str], None]
"""Answers the call with a failure and ends this process, from another thread: it does not return."""


def end_process(message: str) -> None:
    """A GiveUp where nobody waits for an answer."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)


class FellowError(WorkloadError):
    """Another worker failed. The message says which."""


class LinkLostError(Exception):
    """A collective failed since another worker has gone: the cause is there."""


@dataclass(frozen=True, slots=True)
class Fellow:
    rank: int
    link: socket.socket
    local: "Local | None"
    """None: it runs on another machine."""

    def ask(self, request: Request) -> None:
        with suppress(OSError):  # it has ended: whoever waits for its answer hears of that
            write_frame(self.link.fileno(), encode(request))

    def answer(self) -> Answer | None:
        """The next one; None at its end."""
        try:
            data = read_frame(self.link.fileno(), LIMIT_BYTES)
            return None if data is None else decode(Answer, data, limit_bytes=LIMIT_BYTES)
        except (OSError, RemoteError):
            return None

    def cause(self) -> str:
        """Of its end."""
        return "its connection ended" if self.local is None else self.local.cause()

    def end(self) -> None:
        """Whoever waits for its answer hears of it."""
        if self.local is not None:
            self.local.end()
        with suppress(OSError):  # it may have ended already
            self.link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self.local is not None:
            os.close(self.local.page)
        self.link.close()


@dataclass(frozen=True, slots=True)
class Local:
    """The process of a fellow on this machine."""

    process: subprocess.Popen[bytes]
    watch: Watch
    page: int
    """Descriptor of the page on which it says where it crashed."""

    def cause(self) -> str:
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "its process closed its connection"
        return f"its process {self.watch.describe(code, look(self.page).frames)}"

    def end(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # what it has started itself, too
            self.process.wait()


def started(rank: int, module: str, paths: Sequence[bytes]) -> Fellow:
    """A fellow on this machine, which ends with this process."""
    ours, theirs = socket.socketpair()
    page = new_page()
    with theirs:
        command = tied(FELLOW, f"--link={theirs.fileno()}", f"--page={page}")
        command += [f"--path={os.fsdecode(path)}" for path in paths]
        process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(), page),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Fellow(rank, ours, Local(process, Watch.over(module), page))


def _lost(answers: Sequence[Answer]) -> Iterator[str]:
    """What is wrong if nobody fails, and yet one has lost the others."""
    for rank, answer in enumerate(answers, 1):
        if answer.outcome == Outcome.LOST:
            yield f"worker {rank} failed: it had not come to the end when the others had"


class Crew:
    """All fellows of one main worker, in the order of their ranks."""

    def __init__(self, fellows: Iterable[Fellow]) -> None:
        self._fellows: list[Fellow] = []
        self._watching: threading.Thread | None = None
        try:
            for fellow in fellows:  # those that have come are ended if the next one fails
                self._fellows.append(fellow)
        except BaseException:
            self.close()
            raise
        self._fellows.sort(key=lambda fellow: fellow.rank)

    def ask(self, call: Call, bodies: Sequence[object]) -> None:
        """One each. Whoever has been asked is to answer before the next call."""
        for fellow, body in zip(self._fellows, bodies, strict=True):
            fellow.ask(Request(0, call, encode(body)))

    def answers(self) -> list[Answer]:
        """One of each.

        Raises:
            FellowError: one has failed or ended; the message says which and how.
        """
        waiting = {fellow.link.fileno(): fellow for fellow in self._fellows}
        found: dict[int, Answer] = {}
        while waiting:
            for descriptor in select.select(list(waiting), [], [])[0]:
                fellow = waiting.pop(descriptor)
                answer = fellow.answer()
                if answer is None:
                    raise FellowError(f"worker {fellow.rank} failed: {fellow.cause()}")
                if answer.outcome == Outcome.FAILED:
                    said = decode(Failure, answer.body, limit_bytes=LIMIT_BYTES).message
                    raise FellowError(f"worker {fellow.rank} failed: {said}")
                found[fellow.rank] = answer
        return [found[fellow.rank] for fellow in self._fellows]

    @contextmanager
    def watched(self, give_up: GiveUp) -> Iterator["Guard"]:
        """While all train, the main worker in here; afterwards each fellow has ended its part.

        Raises:
            FellowError: one has failed.
        """
        causes: list[str] = []
        came_short: list[str] = []
        free = threading.Event()

        def watch() -> None:
            try:
                came_short.extend(_lost(self.answers()))
            except FellowError as error:
                causes.append(str(error))
                if not free.wait(FREE_S):
                    give_up(str(error))

        thread = self._watching = threading.Thread(target=watch, name="crew", daemon=True)
        thread.start()
        guard = Guard(give_up)
        try:
            yield guard
        except LinkLostError as error:
            free.set()
            thread.join(CAUSE_S)
            raise FellowError(causes[0] if causes else f"main worker failed: {error}") from None
        except Cancelled:  # so are the others
            free.set()
            thread.join()
            raise
        finally:
            free.set()
            guard.free()
        thread.join()
        if causes or came_short:
            raise FellowError((causes or came_short)[0])

    def close(self) -> None:
        for fellow in self._fellows:
            fellow.end()
        if self._watching is not None:
            self._watching.join()
        for fellow in self._fellows:
            fellow.close()
        self._fellows.clear()


class Guard:
    """Sees to it that a main worker that fails gets out: to take down a collective may wait for the others for ever."""

    def __init__(self, give_up: GiveUp) -> None:
        self._give_up = give_up
        self._timer: threading.Timer | None = None

    @contextmanager
    def over(self) -> Iterator[None]:
        """What the main worker does by itself. What it loses of the others, the crew sees."""
        try:
            yield
        except (LinkLostError, Cancelled):
            raise
        except BaseException as error:
            message = f"main worker failed: {type(error).__name__}: {error}"
            self._timer = threading.Timer(FREE_S, self._give_up, (message,))
            self._timer.daemon = True
            self._timer.start()
            raise

    def free(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
