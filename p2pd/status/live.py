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
from rich.segment import Segment, Segments
from rich.styled import Styled
from rich.text import Text

from p2pd.errors import P2pError
from p2pd.status.keys import ESCAPE, KeyReader
from p2pd.status.legend import pages
from p2pd.status.snapshot import Snapshot
from p2pd.status.view import PANELS, ROWS, foot, view

Poll = Callable[[], Snapshot]
"""Raises P2pError while the node does not answer."""
Keys = Callable[[float], str]
"""The key that is pressed within so many seconds; empty for none. Source: keys.KeyReader."""

EVERY_S = 1.0
LEAVE = ("q", "Q")
EXPLAIN = ("?", "h")
HINT = " ? explains the words, q leaves"
MORE = "   there is more: a taller screen shows it"
NEXT = " ? shows the next page, Esc goes back, q leaves"
BACK = " ? or Esc goes back, q leaves"
NO_PAGE = -1
READ_BYTES = 1024
ROWS_MOST = 2 * ROWS
ROWS_LEAST = 2


def watch(poll: Poll, console: Console, keys: Keys, every_s: float = EVERY_S) -> None:
    """Returns when q is pressed, or Ctrl-C."""
    last: Snapshot | None = None
    page = NO_PAGE
    # The screen is drawn by this loop alone: no thread, and nothing between two polls.
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                trouble = ""
                try:
                    last = poll()
                except P2pError as error:
                    trouble = str(error)
                shown = explanation(page, console.height)
                live.update(shown or picture(last, trouble, console), refresh=True)
                key = keys(every_s)
                if key in LEAVE:
                    return
                if key in EXPLAIN:
                    page = page + 1 if page + 1 < len(pages(console.height)) else NO_PAGE
                elif key == ESCAPE:
                    page = NO_PAGE
        except KeyboardInterrupt:
            return


def picture(last: Snapshot | None, trouble: str, console: Console) -> RenderableType:
    """What is on the screen: the newest snapshot, and above it why there is no newer one."""
    parts: list[RenderableType] = []
    taken = 0
    if trouble:
        stale = "; below is what it said last" if last is not None else ""
        parts.append(
            Text(f" {trouble}: trying again, q leaves{stale}", style="bold black on yellow")
        )
        taken = len(console.render_lines(parts[0]))
    if last is not None:
        shown, whole = fitted(last, console, console.height - taken - 1)
        parts += [
            Styled(shown, "dim") if trouble else shown,
            Text(HINT if whole else HINT + MORE, style="bright_black"),
        ]
    return Group(*parts)


def explanation(page: int, lines: int) -> RenderableType | None:
    """A page of it for a screen of so many lines; None for NO_PAGE."""
    if page == NO_PAGE:
        return None
    found = pages(lines)
    number = min(page, len(found) - 1)  # the screen may have grown meanwhile
    more = number + 1 < len(found)
    return Group(found[number], Text(NEXT if more else BACK, style="bright_black"))


def fitted(snapshot: Snapshot, console: Console, lines: int) -> tuple[RenderableType, bool]:
    """The view with as many rows in its tables as the screen has room for, and whether all panels are there.

    On a low screen the panels go from the last on; the line at the foot stays.
    """
    drawn: list[list[Segment]] = []
    for panels in range(PANELS, 0, -1):
        drawn = console.render_lines(view(snapshot, console.width, ROWS_LEAST, panels), pad=False)
        if len(drawn) > lines:
            continue
        for rows in range(ROWS_MOST, ROWS_LEAST - 1, -1):
            tried = view(snapshot, console.width, rows, panels)
            if len(console.render_lines(tried, pad=False)) <= lines:
                return tried, panels == PANELS
    kept = [segment for line in drawn[: lines - 1] for segment in (*line, Segment.line())]
    return Group(Segments(kept), foot(snapshot)), False


@contextmanager
def terminal_keys() -> Iterator[Keys]:
    """Single keys from the terminal, without echo; without a terminal there are none."""
    if not sys.stdin.isatty():
        yield _no_keys
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read(wait_s: float) -> bytes:
        ready, _, _ = select.select([descriptor], [], [], wait_s)
        return os.read(descriptor, READ_BYTES) if ready else b""

    try:
        tty.setcbreak(descriptor)  # Ctrl-C still interrupts
        with _ended_by_signal():
            yield KeyReader(read).key
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
