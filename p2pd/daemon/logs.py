"""Where a node's log lines go: standard error, and DIR/log."""

import json
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from p2pd.io.durable import storing
from p2pd.status.pictures import printable

LOG_BYTES = 8 * 2**20
"""Of DIR/log; one older file of this size is kept beside it."""


class TextLines(logging.Formatter):
    """One line a message: what others wrote into it cannot begin a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def start_logging(path: Path, level: str, style: str) -> None:
    """Raises StoreError: the file cannot be written."""
    text = TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    formatter = JsonLines() if style == "json" else text
    with storing(path):
        to_file = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
    # A full disk must not add a traceback to standard error for each line that finds no room.
    logging.raiseExceptions = False
    for handler in (logging.StreamHandler(), to_file):
        handler.setFormatter(formatter)
        logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(level.upper())
    # aioquic tells of every packet that it does not like; the overlay says what matters of it.
    logging.getLogger("quic").setLevel(logging.CRITICAL)
