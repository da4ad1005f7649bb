"""How a process ended, in words, and as far as it can be known why. Status as Popen has it: an exit code, or a
signal's number negated. Bytes."""

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from p2pd.errors import printable
from p2pd.machine import memory_kills
from p2pd.workload.causes import memory_advice, shared_memory_advice
from p2pd.workload.page import Frame
from p2pd.workload.protocol import DESCRIPTORS_LOST
from p2pd.workload.source import is_theirs

PATH_CHARACTERS = 400
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


def ending(status: int) -> str:
    """`exit code 3` or `SIGSEGV`; the real-time signals have numbers for names: `SIG40`."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"SIG{-status}"


@dataclass(frozen=True, slots=True)
class Watch:
    """What is looked at when a process starts, so that more is known when it ends."""

    module: str
    kills: int | None
    """That the kernel had made for want of memory; None where it does not count them."""

    @classmethod
    def over(cls, module: str) -> "Watch":
        return cls(module, memory_kills())

    def describe(self, status: int, frames: Iterable[Frame]) -> str:
        """How it ended and why, behind `the process ...`; frames are where it crashed, innermost first."""
        if status == DESCRIPTORS_LOST:
            return (
                "closed the descriptors that it answers through: have it close only what it opened"
            )
        if status >= 0:
            return f"ended with {ending(status)}"
        if status == -signal.SIGKILL:
            return f"was killed (SIGKILL){self._killer()}"
        where = place_of(frames, self.module)
        if status == -signal.SIGBUS:
            return f"was ended by SIGBUS{where}: {shared_memory_advice()}"
        if -status in CRASHES:
            return f"crashed ({ending(status)}) in native code{where}"
        return f"was ended by {ending(status)}"

    def _killer(self) -> str:
        now = memory_kills()
        if self.kills is None or now is None:
            return ": probably out of memory"
        if now == self.kills:
            return " by somebody, and not by the kernel for want of memory"
        return f" by the kernel: {memory_advice(None)}"


def place_of(frames: Iterable[Frame], module: str) -> str:
    """` at FILE:LINE`, of the innermost line in the user's code; empty where there is none."""
    own = module.replace(".", "/")
    for frame in frames:
        if f"/{own}.py" in frame.path or f"/{own}/" in frame.path or is_theirs(frame.path):
            return printable(f" at {frame.path[:PATH_CHARACTERS]}:{frame.line}")
    return ""
