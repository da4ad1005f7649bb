import json
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from p2pd.config.node import LogSettings
from p2pd.daemon.logs import start_logging
from p2pd.errors import StoreError

log = logging.getLogger("p2pd.tests")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, quic = root.handlers[:], root.level, logging.getLogger("quic").level
    raising = logging.raiseExceptions
    yield
    for handler in root.handlers:
        if handler not in handlers:
            with suppress(OSError):  # of the full disk
                handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("quic").setLevel(quic)
    logging.raiseExceptions = raising


def test_a_message_is_one_line_whatever_others_wrote_into_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    start_logging(path, LogSettings())
    log.info("peer says %s", "bye\n12:00:00 ERROR   p2pd: all is lost\x1b[2J")
    (line,) = path.read_text().splitlines()
    assert line.endswith("p2pd.tests: peer says bye\\n12:00:00 ERROR   p2pd: all is lost\\x1b[2J")


def test_json_lines_are_json_and_keep_the_traceback(tmp_path: Path) -> None:
    path = tmp_path / "log"
    start_logging(path, LogSettings(level="warning", format="json"))
    log.info("not this")
    try:
        int("of course")
    except ValueError:
        log.exception("it went\nwrong")
    (line,) = path.read_text().splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == (
        "error",
        "p2pd.tests",
        "it went\nwrong",
    )
    assert "ValueError: invalid literal" in entry["traceback"]
    assert datetime.fromisoformat(entry["time"]).tzinfo == UTC


def test_the_log_of_a_node_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    start_logging(path, LogSettings(file_bytes=2**20))
    for _ in range(48):
        logging.getLogger("p2pd.workload").info("x" * 2**16)
    capsys.readouterr()
    sizes = {one.name: one.stat().st_size for one in tmp_path.iterdir()}
    assert sizes.keys() == {"log", "worker.log", "worker.log.1"}
    assert max(sizes.values()) <= 2**20


def test_what_the_workload_prints_does_not_push_out_what_the_node_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(tmp_path / "log", LogSettings(file_bytes=2**16))
    log.info("what the node says")
    for _ in range(48):
        logging.getLogger("p2pd.workload").info("x" * 2**14)
    assert "what the node says" in (tmp_path / "log").read_text()
    assert "xxx" not in (tmp_path / "log").read_text()
    assert "p2pd.workload: xxx" in capsys.readouterr().err  # where both are seen


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.mkdir()
    with pytest.raises(StoreError, match="log: it is a directory"):
        start_logging(path, LogSettings())


def test_a_full_disk_costs_log_lines_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_logging(Path("/dev/full"), LogSettings())
    log.info("no room for this")
    assert "Traceback" not in capsys.readouterr().err


def test_standard_error_that_is_a_file_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, path = tmp_path / "output", tmp_path / "log"
    with output.open("w") as file:
        monkeypatch.setattr("sys.stderr", file)
        start_logging(path, LogSettings(file_bytes=2**16))
        for number in range(200):
            logging.getLogger("p2pd.workload").info("%d %s", number, "x" * 1000)
    assert output.stat().st_size <= 2**16 + 200
    *lines, last = output.read_text().splitlines()
    assert len(lines) > 50
    assert last == f"all that follows is in {path}"
    assert " 199 x" in path.with_name("worker.log").read_text().splitlines()[-1]


def test_standard_error_that_is_a_pipe_has_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as heard, os.fdopen(writer, "w") as file:
        monkeypatch.setattr("sys.stderr", file)
        start_logging(tmp_path / "log", LogSettings(file_bytes=2**16))
        for number in range(200):
            logging.getLogger("p2pd.workload").info("%d %s", number, "x" * 1000)
            assert f"{number} xxx" in heard.readline()
