"""Where a node's log lines go: standard error, and DIR/log."""

import json
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG_BYTES = 8 * 2**20
"""Of DIR/log; one older file of this size is kept beside it."""


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
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    formatter = JsonLines() if style == "json" else text
    to_file = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
    for handler in (logging.StreamHandler(), to_file):
        handler.setFormatter(formatter)
        logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(level.upper())
    # aioquic tells of every packet that it does not like; the overlay says what matters of it.
    logging.getLogger("quic").setLevel(logging.CRITICAL)
