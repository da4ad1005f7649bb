"""A process that leaves nothing behind: what it starts, and what that starts, ends with it. On Linux.

The process forks. The one below goes on; the one above stays as its keeper, to which the kernel hands
all orphans below, and kills them once the one below has ended, or when its own parent has.
Source: prctl(2), PR_SET_CHILD_SUBREAPER; proc(5).
"""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from p2pd.lifeline import end_with

PR_SET_CHILD_SUBREAPER = 36
WATCHED = frozenset({signal.SIGCHLD, signal.SIGTERM})


def keep(parent: int, descriptors: tuple[int, ...]) -> None:
    """Goes on in a process that lies below a keeper, which ends with parent, or by SIGTERM.

    The descriptors are for the one below alone. To be called before any thread is started. Where
    there are no subreapers, this process alone ends with parent.
    """
    if sys.platform != "linux":
        end_with(parent)
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, there would be nothing to wait for
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    end_with(parent, signal.SIGTERM)
    keeper = os.getpid()
    child = os.fork()
    if child:
        for descriptor in descriptors:
            os.close(descriptor)
        _end_as(_end_of(child), before)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    end_with(keeper)


def _end_of(child: int) -> int:
    """Waits until the child has ended, or until told to end; then there is nothing left below. Its status."""
    status = None
    while status is None and signal.sigwait(WATCHED) == signal.SIGCHLD:
        status = _reap(child)
    while _kill_children():
        # Whose number this is stays taken until here: nobody else's is hit. What it left is ours now.
        os.waitpid(-1, 0)
    return signal.SIGTERM if status is None else status


def _reap(child: int) -> int | None:
    """The status of the child, once it has ended; orphans go by the way."""
    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
        if ended[0] == child:
            return ended[1]
    return None


def _kill_children() -> bool:
    """Whether there was any that could be killed."""
    killed = False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended, or is another user's
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                os.kill(int(stat.parent.name), signal.SIGKILL)
                killed = True
    return killed


def _end_as(status: int, mask: set[int]) -> NoReturn:
    """Whoever waits for this process finds what happened to the one below."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))
