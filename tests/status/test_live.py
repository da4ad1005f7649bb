import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.segment import Segment

from p2pd.errors import UnreachableError
from p2pd.status.keys import ESCAPE
from p2pd.status.legend import WORDS, pages
from p2pd.status.live import BACK, HINT, NEXT, explanation, fitted, picture, watch
from p2pd.status.snapshot import Snapshot
from tests.status.samples import busy

ALTERNATE_ON, ALTERNATE_OFF = "\x1b[?1049h", "\x1b[?1049l"
READ_BYTES = 65536
LEAD = (
    "import fcntl, os, signal, sys, termios; "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal that of this session, so that Ctrl-C reaches the command, also where the tests were started with
interrupts ignored, as in the background of a script."""


def screen(lines: int = 60) -> Console:
    return Console(width=100, height=lines, file=StringIO(), force_terminal=True)


def text_of(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def pressed(*keys: str) -> Callable[[float], str]:
    left = iter(keys)
    return lambda _: next(left)


@pytest.mark.parametrize("key", ["q", "Q"])
def test_it_draws_until_a_key_leaves(key: str) -> None:
    console, polls = screen(), 0

    def poll() -> Snapshot:
        nonlocal polls
        polls += 1
        return busy()

    watch(poll, console, pressed("", "x", ESCAPE, key))
    assert polls == 4
    assert "height 15" in text_of(console)
    assert text_of(console).startswith(ALTERNATE_ON)
    assert ALTERNATE_OFF in text_of(console)


def test_ctrl_c_leaves_quietly() -> None:
    def interrupted(wait_s: float) -> str:
        raise KeyboardInterrupt

    console = screen()
    watch(busy, console, interrupted)
    assert ALTERNATE_OFF in text_of(console)


def test_a_node_that_went_away_is_said_and_asked_again() -> None:
    answers: list[Snapshot | None] = [busy(), None, busy()]

    def poll() -> Snapshot:
        answer = answers.pop(0)
        if answer is None:
            raise UnreachableError("no node is running in /data")
        return answer

    console = screen()
    watch(poll, console, pressed("", "", "q"))
    first, _, rest = text_of(console).partition("no node is running in /data: trying again")
    gone, _, back = rest.partition("\x1b[H")
    assert "height 15" in first
    assert "height 15" in gone, "the last that is known stays on the screen"
    assert "height 15" in back
    assert "trying again" not in back


def test_a_node_that_is_not_there_yet_is_waited_for() -> None:
    def poll() -> Snapshot:
        raise UnreachableError("no node is running in /data")

    console = screen()
    watch(poll, console, pressed("", "q"))
    assert "trying again, q leaves" in text_of(console)


@pytest.mark.parametrize("lines", [26, 30, 45])
def test_tables_are_as_long_as_the_screen_has_room_for(lines: int) -> None:
    console = screen(lines)
    shown, _ = fitted(busy(), console, lines)
    assert len(console.render_lines(shown)) <= lines


def test_the_room_of_panels_that_are_left_out_goes_to_the_rows_of_the_others() -> None:
    console = Console(width=80, height=40, file=StringIO(), force_terminal=False)
    for lines in range(30, 40):
        shown, whole = fitted(busy(), console, lines)
        taken = len(console.render_lines(shown, pad=False))
        assert whole or taken > lines - 4, (lines, taken)


def test_a_tall_screen_shows_more() -> None:
    tall, short = screen(60), screen(26)
    more = len(tall.render_lines(fitted(busy(), tall, 60)[0]))
    assert more > len(short.render_lines(fitted(busy(), short, 26)[0]))


@pytest.mark.parametrize("lines", [8, 12, 20, 24, 30, 50])
@pytest.mark.parametrize("trouble", ["", "no node is running in /data"])
def test_the_foot_is_seen_however_low_the_screen_is(lines: int, trouble: str) -> None:
    console = Console(width=80, height=lines, file=StringIO(), force_terminal=False)
    drawn = ["".join(part.text for part in line) for line in picture_lines(console, trouble)]
    assert len(drawn) <= lines
    assert drawn[-2].startswith(" heard 211 votes")
    assert drawn[-1].startswith(HINT)
    assert ("a taller screen" in drawn[-1]) == (lines < 50)


def picture_lines(console: Console, trouble: str) -> list[list[Segment]]:
    return console.render_lines(picture(busy(), trouble, console), pad=False)


def test_on_24_lines_of_80_columns_the_height_and_its_decisions_are_whole() -> None:
    console = Console(width=80, height=24, file=StringIO(), force_terminal=False)
    text = "\n".join("".join(part.text for part in line) for line in picture_lines(console, ""))
    assert "0 of 4, quorum 3" in text
    assert "14 blocked" in text
    assert text.count("╭") == text.count("╰") == 3


def shown(controller: int, process: subprocess.Popen[bytes], before: str) -> str:
    """What comes next on the screen of a process; fails where it has ended and nothing more comes."""
    end = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([controller, end], [], [])
    finally:
        os.close(end)
    if controller not in ready:
        raise AssertionError(f"it ended: {before}")
    return os.read(controller, READ_BYTES).decode(errors="replace")


@pytest.mark.parametrize("way", ["\x1b[A\x1bOBxq", "\x03", "SIGTERM"])
def test_the_terminal_is_left_as_it_was(tmp_path: Path, way: str) -> None:
    controller, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    command = [sys.executable, "-m", "p2pd.cli", "status", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", LEAD, *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    ) as process:
        said = ""
        while "trying again" not in said:
            said += shown(controller, process, said)
        assert termios.tcgetattr(terminal) != before
        if way == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.write(controller, way.encode())
        while ALTERNATE_OFF not in said:
            said += shown(controller, process, said)
        assert process.wait() == (128 + signal.SIGTERM if way == "SIGTERM" else 0)
    assert termios.tcgetattr(terminal) == before
    assert "Traceback" not in said
    os.close(terminal)
    os.close(controller)


def test_the_last_screen_of_a_node_that_went_away_is_marked_and_dimmed_and_still_fits() -> None:
    console = Console(width=80, height=24, file=StringIO(), force_terminal=True)
    trouble = "no node is running in " + "/a/long/path" * 6
    lines = console.render_lines(picture(busy(), trouble, console), pad=False)
    text = "".join(part.text for line in lines for part in line)
    assert len(lines) <= 24
    assert "below is what it said last" in text
    dimmed = [part for line in lines for part in line if part.style and part.style.dim]
    assert any("height 15" in part.text for part in dimmed)
    assert not any(
        part.style and part.style.dim for line in picture_lines(console, "") for part in line
    )


def test_the_key_turns_the_pages_of_the_explanation_and_then_goes_back() -> None:
    console = screen(24)
    watch(busy, console, pressed("?", "?", "?", "q"))
    first, second, back = text_of(console).split("\x1b[H")[-3:]
    assert "1 of 2" in first
    assert NEXT in first
    assert "2 of 2" in second
    assert BACK in second
    assert "height 15" in back


@pytest.mark.parametrize("end", ["?", ESCAPE])
def test_a_key_explains_the_words_and_the_same_key_or_escape_ends_that(end: str) -> None:
    console = screen()
    watch(busy, console, pressed("?", "", end, "q"))
    view, explained, again, back = text_of(console).split("\x1b[H")[-4:]
    assert "? explains the words" in view
    assert "what the words mean" not in view
    for screenful in (explained, again):
        assert "what the words mean" in screenful
        assert BACK in screenful
        assert "height 15" not in screenful
        assert all(meaning[:40] in screenful for _, meaning in WORDS)
    assert "height 15" in back


@pytest.mark.parametrize(("columns", "height"), [(80, 24), (100, 40), (140, 45), (80, 10)])
def test_each_page_of_the_explanation_fits_on_a_screen_and_all_words_are_on_one(
    columns: int, height: int
) -> None:
    console = Console(width=columns, height=height, file=StringIO(), force_terminal=False)
    text = ""
    for page in range(len(pages(height))):
        shown = explanation(page, height)
        assert shown is not None
        lines = console.render_lines(shown, console.options.update(height=None), pad=False)
        assert len(lines) <= height
        text += "\n".join("".join(part.text for part in line) for line in lines)
    assert all(meaning in text for _, meaning in WORDS)


def test_a_page_stays_when_the_screen_grows_so_that_there_are_fewer() -> None:
    assert explanation(1, 60) is not None
