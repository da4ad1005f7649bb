"""The durable tables of a node, in one SQLite file.

Write-ahead log with synchronous=FULL: a commit is on stable storage when it returns. Commits run in
a thread, one after another; reads run where they are called, on a connection of their own, and see
the last commit.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from p2pd.errors import NoRoomError, StoreError
from p2pd.io.durable import storing, sync_directory
from p2pd.ports import Table, Write

VERSION = 1
"""Of the tables, in SQLite's user_version."""
COMPANIONS = ("-wal", "-shm", "-journal")
BUSY_S = 5.0
DAMAGED = (
    "{path} is damaged ({why}): restore a copy, or move it and its -wal file away to begin anew; "
    "a validator that begins anew forgets which votes it sent"
)


class SqliteLedger:
    """Implements the port Ledger. Whoever opens it holds the lock of the data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = trio.CapacityLimiter(1)  # commits run in the order in which they are asked for
        with storing(path):
            if not path.exists():
                _create(path)
        with _store_errors(self._path):
            self._writer = _connect(path)
            self._reader = _connect(path)
            self._check()
            self._writer.execute("PRAGMA synchronous = FULL")
            self._reader.execute("PRAGMA query_only = ON")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with _store_errors(self._path):
            self._reader.close()
            self._writer.close()

    async def commit(self, writes: Sequence[Write]) -> None:
        # Not abandoned on cancellation: when this returns or raises, the outcome is settled.
        await trio.to_thread.run_sync(self._commit, tuple(writes), limiter=self._turn)

    def get(self, table: Table, key: bytes) -> bytes | None:
        with _store_errors(self._path):
            row = self._reader.execute(
                f"SELECT value FROM {table.value} WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def scan(
        self, table: Table, prefix: bytes, *, after: bytes = b"", limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        start = "key > ?" if after and after >= prefix else "key >= ?"
        clause, arguments = _below(prefix)
        with _store_errors(self._path):
            rows = self._reader.execute(
                f"SELECT key, value FROM {table.value} WHERE {start}{clause} ORDER BY key LIMIT ?",
                (max(after, prefix), *arguments, limit),
            ).fetchall()
        return [(bytes(key), bytes(value)) for key, value in rows]

    def last(self, table: Table, prefix: bytes) -> tuple[bytes, bytes] | None:
        clause, arguments = _below(prefix)
        with _store_errors(self._path):
            row = self._reader.execute(
                f"SELECT key, value FROM {table.value} WHERE key >= ?{clause} "
                "ORDER BY key DESC LIMIT 1",
                (prefix, *arguments),
            ).fetchone()
        return None if row is None else (bytes(row[0]), bytes(row[1]))

    def _commit(self, writes: tuple[Write, ...]) -> None:
        with _store_errors(self._path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for write in writes:
                    self._apply(write)
                self._writer.execute("COMMIT")
            finally:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")

    def _apply(self, write: Write) -> None:
        table = write.table.value
        if write.value is None:
            self._writer.execute(f"DELETE FROM {table} WHERE key = ?", (write.key,))
        else:
            self._writer.execute(
                f"INSERT INTO {table} VALUES (?, ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (write.key, write.value),
            )

    def _check(self) -> None:
        """Refuses a ledger that is damaged, that is none, or that a newer p2pd wrote."""
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreError(
                f"{self._path} has version {version}, this p2pd knows up to {VERSION}: "
                "run the newer p2pd that wrote it"
            )
        if version < VERSION:
            raise StoreError(DAMAGED.format(path=self._path, why="it holds no ledger"))
        (verdict,) = self._writer.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StoreError(DAMAGED.format(path=self._path, why=_one_line(verdict)))


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # our own bug: a closed ledger, a wrong argument
    except sqlite3.DatabaseError as error:
        raise _store_error(path, error) from error


def _connect(path: Path) -> sqlite3.Connection:
    # The writer moves between threads, one at a time. isolation_level None: BEGIN is ours to say.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _create(path: Path) -> None:
    """Built aside and renamed: a ledger that exists is whole; an empty file is never one."""
    for suffix in COMPANIONS:
        stray = path.with_name(path.name + suffix)
        if stray.exists():
            raise StoreError(
                f"{stray} is here without {path.name}: bring {path.name} back, "
                f"or move {stray.name} away to begin anew"
            )
    aside = path.with_name(path.name + ".new")
    for leftover in (aside, *(aside.with_name(aside.name + suffix) for suffix in COMPANIONS)):
        leftover.unlink(missing_ok=True)
    os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with _store_errors(aside), closing(_connect(aside)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for table in Table:
            connection.execute(
                f"CREATE TABLE {table.value} "
                "(key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
        connection.execute(f"PRAGMA user_version = {VERSION}")
        # closing it moves the log into the file and removes the log
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    sync_directory(path.parent)


def _below(prefix: bytes) -> tuple[str, tuple[bytes, ...]]:
    """SQL for: the key is less than every key beyond those that start with prefix."""
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return "", ()
    return " AND key < ?", (stem[:-1] + bytes([stem[-1] + 1]),)


def _store_error(path: Path, error: sqlite3.DatabaseError) -> StoreError:
    code = error.sqlite_errorcode & 0xFF  # the rest of it is detail of the same kind
    text = _one_line(str(error))
    if code == sqlite3.SQLITE_FULL:
        return NoRoomError(f"{path}: the disk is full: free some space")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(DAMAGED.format(path=path, why=text))
    return StoreError(f"{path}: {text}: check that the disk has space and the file can be written")


def _one_line(text: str) -> str:
    return " ".join(text.split())
