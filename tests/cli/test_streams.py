import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from p2pd.io.control import NAME as CONTROL
from tests.cli.chains import build_chain

WAIT_S = 60


def started(script: str, *words: object, **streams: int) -> subprocess.Popen[str]:
    """What a shell starts, where a script says what is closed."""
    command = ["sh", "-c", f'exec "$@" {script}', "sh", *map(str, words)]
    return subprocess.Popen(command, text=True, **streams)  # type: ignore[call-overload, no-any-return]


def ran(script: str, *words: object) -> tuple[int, str, str]:
    """Exit status, output, errors."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(script, sys.executable, "-m", "p2pd", *words, **streams) as process:
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out, err


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
@pytest.mark.parametrize("words", [["--version"], ["config", "show", "--json"]])
def test_output_that_is_closed_cannot_be_written_and_that_is_said(
    closed: str, words: list[str]
) -> None:
    code, _, err = ran(closed, *words)
    assert code == 1
    assert re.fullmatch(r"p2pd: standard output cannot be written: it is closed.*\n", err)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_wrong_usage_ends_with_2_where_nobody_can_be_told(closed: str) -> None:
    assert ran(closed, "hlep") == (2, "", "")


def test_what_is_opened_next_is_none_of_the_standard_streams() -> None:
    script = (
        "import os, sys\n"
        "from p2pd.cli.streams import open_closed\n"
        "open_closed()\n"
        "numbers = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]\n"
        "raise SystemExit(numbers != [0, 1, 2] or os.open(os.devnull, os.O_RDONLY) < 3)\n"
    )
    with started("<&- >&- 2>&-", sys.executable, "-c", script) as process:
        assert process.wait(WAIT_S) == 0


def test_a_node_runs_and_leaves_without_any_stream(tmp_path: Path) -> None:
    genesis = build_chain(tmp_path, heights=1).genesis_file
    data_dir = tmp_path / "n"
    words = ["run", "--role", "bootstrap", "--genesis", genesis, "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "p2pd", *words, "--data-dir", data_dir]

    async def main(process: subprocess.Popen[str]) -> None:
        with trio.fail_after(WAIT_S):
            while process.poll() is None and not (data_dir / CONTROL).exists():  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)

    with started("<&- >&- 2>&-", *command) as process:
        trio.run(main, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    assert "left" in (data_dir / "log").read_text()
