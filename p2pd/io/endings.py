"""How a process ended, in words. Status as Popen has it: an exit code, or a signal's number negated."""

import signal


def ending(status: int) -> str:
    """`exit code 3` or `SIGSEGV`; the real-time signals have numbers for names: `SIG40`."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"SIG{-status}"
