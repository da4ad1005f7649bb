"""The end of a log file that a node writes meanwhile, over its rotation. Bytes."""

import os
from pathlib import Path

from p2pd.errors import UsageError
from p2pd.io.durable import storing

MOST_BYTES = 32 * 2**20
"""Of a file that are looked at: more than any log of a node has, unless its owner wants so."""


class Tail:
    """One log, with the older file beside it."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError: there is none."""
        self._path = path
        self._place = 0
        self._file = -1
        self._rest = b""
        if not path.exists():
            raise UsageError(
                f"{path}: there is no such log: is {path.parent} the data directory of a node,"
                " and has it run?"
            )

    def last(self, lines: int) -> list[str]:
        """So many lines at the end, as far as there are; more goes on from there."""
        with storing(self._path):
            content = self._read_all(self._path)
            found = content.split(b"\n")
            self._rest = found.pop()  # not ended yet
            older = self._path.with_name(f"{self._path.name}.1")
            if len(found) < lines and older.exists():
                found = older.read_bytes()[-MOST_BYTES:].split(b"\n")[:-1] + found
        return [_text(line) for line in found[-lines:]] if lines else []

    def more(self) -> list[str]:
        """Whole lines that have come since."""
        with storing(self._path):
            try:
                status = self._path.stat()
            except FileNotFoundError:  # between two files
                return []
            new = b""
            if status.st_ino != self._file or status.st_size < self._place:
                new = self._end_of_the_old(status.st_ino)
                self._place, self._file = 0, status.st_ino
            with self._path.open("rb") as file:
                file.seek(self._place)
                new += file.read(MOST_BYTES)
                self._place = file.tell()
        *lines, self._rest = (self._rest + new).split(b"\n")
        return [_text(line) for line in lines]

    def _read_all(self, path: Path) -> bytes:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(0, status.st_size - MOST_BYTES))
            content = file.read()
            self._place, self._file = file.tell(), status.st_ino
        return content

    def _end_of_the_old(self, newer: int) -> bytes:
        """What was written before the file was turned over, and not read yet."""
        older = self._path.with_name(f"{self._path.name}.1")
        if self._file == newer or not older.exists() or older.stat().st_ino != self._file:
            return b""
        with older.open("rb") as file:
            file.seek(self._place)
            return file.read(MOST_BYTES)


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
