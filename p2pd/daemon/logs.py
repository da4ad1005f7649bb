"""Where a node's log lines go: standard error, and DIR/log, as text or JSON, both bounded."""

import json
import logging
import time
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from p2pd.config.node import LogSettings
from p2pd.daemon.folding import Folding
from p2pd.errors import StoreError
from p2pd.io.durable import storing
from p2pd.status.pictures import printable


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


def start_logging(path: Path, settings: LogSettings) -> Folding:
    """What is returned tells in the end how many messages were left out.

    Raises:
        StoreError: the file cannot be written.
    """
    text = TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    formatter = JsonLines() if settings.format == "json" else text
    older = path.with_name(f"{path.name}.1")
    with storing(path):
        for one in (path, older):
            if one.is_dir() or one.is_fifo():
                what = "a directory" if one.is_dir() else "a pipe"
                raise StoreError(f"{one}: it is {what}, not a file: move it away")
        to_file = RotatingFileHandler(
            path, maxBytes=settings.file_bytes, backupCount=1, encoding="utf-8"
        )
    # A full disk must not add a traceback to standard error for each line that finds no room.
    logging.raiseExceptions = False
    targets = (logging.StreamHandler(), to_file)
    for target in targets:
        target.setFormatter(formatter)
    folding = Folding(targets, settings.repeat_s, time.monotonic)
    logging.getLogger().addHandler(folding)
    logging.getLogger().setLevel(settings.level.upper())
    # aioquic tells of every packet that it does not like; the overlay says what matters of it.
    logging.getLogger("quic").setLevel(logging.CRITICAL)
    return folding
