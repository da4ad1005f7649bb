"""A process that ends with the one that started it, however that ends. Seconds.

    python -m p2pd.lifeline PARENT_PID MODULE ARGUMENT...

runs a module so, which then need not know. Source: prctl(2).
"""

import ctypes
import os
import runpy
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1
LOOK_S = 0.5
"""How often is looked where the kernel does not tell."""
ORPHANED = 1
"""Exit status of a process whose parent had ended before it could ask to be told."""


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Has this process get a signal when the one that started it ends; ends it now if that is over.

    On Linux it is the thread that started this process whose end counts: start it from one that stays.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    else:
        look(parent, number)
    if os.getppid() != parent:
        raise SystemExit(ORPHANED)


def look(parent: int, number: signal.Signals) -> None:
    """The same where the kernel offers nothing: a thread sees that this process was handed to another."""
    thread = threading.Thread(target=_look, args=(parent, number), daemon=True, name="lifeline")
    thread.start()


def _look(parent: int, number: signal.Signals) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(LOOK_S)
    os.kill(os.getpid(), number)


def tied(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as a process which ends with this one."""
    return [sys.executable, "-m", "p2pd.lifeline", str(os.getpid()), module, *arguments]


def main() -> None:
    end_with(int(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
