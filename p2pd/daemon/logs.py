"""Where a node's log lines go: standard error, and DIR/log, as text or JSON, both bounded.

What its workload prints goes to DIR/worker.log instead, so that it cannot push out what the node says.
"""

import json
import logging
import os
import stat
import sys
import time
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from p2pd.config.node import LogSettings
from p2pd.daemon.folding import Folding
from p2pd.errors import StoreError, printable
from p2pd.io.durable import storing

WORKER_LOG = "worker.log"


class TextLines(logging.Formatter):
    """One line a message: what others wrote into it cannot begin a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """One object a message, its time in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, ensure_ascii=False)


class StandardError(logging.StreamHandler[TextIO]):
    """Ends after so many bytes where standard error is a file, which nobody turns over: the log goes on."""

    def __init__(self, log: Path, file_bytes: int) -> None:
        logging.StreamHandler.__init__(self, sys.stderr)
        self._log = log
        self._left_bytes = file_bytes if _is_file(sys.stderr) else None

    def format(self, record: logging.LogRecord) -> str:
        line = logging.StreamHandler.format(self, record)
        if self._left_bytes is None:
            return line
        self._left_bytes -= len(line.encode()) + 1
        return line if self._left_bytes >= 0 else f"all that follows is in {self._log}"

    def emit(self, record: logging.LogRecord) -> None:
        if self._left_bytes is None or self._left_bytes >= 0:
            logging.StreamHandler.emit(self, record)


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # it is none of the operating system's
        return False


def start_logging(path: Path, settings: LogSettings) -> Folding:
    """What is returned tells in the end how many messages were left out.

    Raises:
        StoreError: the file cannot be written.
    """
    text = TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    formatter = JsonLines() if settings.format == "json" else text
    to_file = _file(path, settings, at_once=True)
    to_worker_file = _file(path.with_name(WORKER_LOG), settings, at_once=False)
    # A full disk must not add a traceback to standard error for each line that finds no room.
    logging.raiseExceptions = False
    to_screen = StandardError(path, settings.file_bytes)
    for target in (to_screen, to_file, to_worker_file):
        target.setFormatter(formatter)
    folding = Folding(
        (to_screen, to_file), (to_screen, to_worker_file), settings.repeat_s, time.monotonic
    )
    logging.getLogger().addHandler(folding)
    logging.getLogger().setLevel(settings.level.upper())
    # aioquic tells of every packet that it does not like; the overlay says what matters of it.
    logging.getLogger("quic").setLevel(logging.CRITICAL)
    return folding


def _file(path: Path, settings: LogSettings, *, at_once: bool) -> logging.Handler:
    """at_once: it is made now, not with its first line."""
    older = path.with_name(f"{path.name}.1")
    with storing(path):
        for one in (path, older):
            if one.is_dir() or one.is_fifo():
                what = "a directory" if one.is_dir() else "a pipe"
                raise StoreError(f"{one}: it is {what}, not a file: move it away")
        return RotatingFileHandler(
            path,
            maxBytes=settings.file_bytes,
            backupCount=1,
            encoding="utf-8",
            delay=not at_once,
        )
