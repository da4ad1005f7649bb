"""Polls and draws until a key or a signal ends it; whatever happens, the terminal is left as it was. Seconds."""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from p2pd.errors import P2pError
from p2pd.status.legend import legend
from p2pd.status.snapshot import Snapshot
from p2pd.status.view import ROWS, view

Poll = Callable[[], Snapshot]
"""Raises P2pError while the node does not answer."""
Keys = Callable[[float], str]
"""The key that is pressed within so many seconds; empty for none."""

EVERY_S = 1.0
LEAVE = ("q", "Q", "\x1b")
EXPLAIN = ("?", "h")
HINT = " ? explains the words, q leaves"
ROWS_MOST = 2 * ROWS
ROWS_LEAST = 2


def watch(poll: Poll, console: Console, keys: Keys, every_s: float = EVERY_S) -> None:
    """Returns when q is pressed, or Ctrl-C."""
    last: Snapshot | None = None
    explaining = False
    # The screen is drawn by this loop alone: no thread, and nothing between two polls.
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                trouble = ""
                try:
                    last = poll()
                except P2pError as error:
                    trouble = str(error)
                shown = legend() if explaining else picture(last, trouble, console)
                live.update(shown, refresh=True)
                key = keys(every_s)
                if key in LEAVE:
                    return
                explaining ^= key in EXPLAIN
        except KeyboardInterrupt:
            return


def picture(last: Snapshot | None, trouble: str, console: Console) -> RenderableType:
    """What is on the screen: the newest snapshot, and above it why there is no newer one."""
    parts: list[RenderableType] = []
    if trouble:
        parts.append(Text(f" {trouble}: trying again, q leaves", style="bold black on yellow"))
    if last is not None:
        parts.append(fitted(last, console, console.height - len(parts) - 1))
        parts.append(Text(HINT, style="bright_black"))
    return Group(*parts)


def fitted(snapshot: Snapshot, console: Console, lines: int) -> RenderableType:
    """The view with as many rows in its tables as the screen has room for."""
    found = view(snapshot, console.width, ROWS_LEAST)
    for rows in range(ROWS_MOST, ROWS_LEAST, -1):
        larger = view(snapshot, console.width, rows)
        if len(console.render_lines(larger, pad=False)) <= lines:
            return larger
    return found


@contextmanager
def terminal_keys() -> Iterator[Keys]:
    """Single keys from the terminal, without echo; without a terminal there are none."""
    if not sys.stdin.isatty():
        yield _no_keys
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def keys(wait_s: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], wait_s)
        return os.read(descriptor, 1).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(descriptor)  # Ctrl-C still interrupts
        with _ended_by_signal():
            yield keys
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _no_keys(wait_s: float) -> str:
    select.select([], [], [], wait_s)
    return ""


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind, so that the terminal is restored."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
