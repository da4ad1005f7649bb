"""The durable tables of a node, in one SQLite file.

Write-ahead log with synchronous=FULL: a commit is on stable storage when it returns. Commits run in
a thread, one after another; reads run where they are called, on a connection of their own, and see
the last commit.

Damage is found: each row holds a sum over itself, and a file beside the ledger holds how many commits it
must have (8 bytes, big-endian, and 8 of their hash). That file is written after each commit and not
synced: after a crash it may say too few, never too many.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from p2pd.core.wording import counted
from p2pd.errors import NoRoomError, StoreError
from p2pd.io.durable import free_bytes, open_file, storing, sync_directory
from p2pd.io.ledger_form import (
    COMMITS,
    NO_TEXT,
    blobs,
    changed,
    check_form,
    check_pages,
    check_types,
    count_of,
    create_tables,
    damaged,
    one_line,
    read_any_text,
)
from p2pd.ports import Table, Write

COMPANIONS = ("-wal", "-shm", "-journal")
BUSY_S = 5.0
LEAST_BYTES = 2**16
"""With less on the disk it counts as full."""
SUM_BYTES = 8
COUNT_BYTES = 8
LACKING = (
    "{path} lacks {lacking} at its end: its -wal file was lost or damaged, or an older copy was put "
    "back: restore the newest copies of both; where nothing voted, removing {count} accepts the loss"
)


class SqliteLedger:
    """Implements the port Ledger. Whoever opens it holds the lock of the data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = trio.CapacityLimiter(1)  # commits run in the order in which they are asked for
        _check_files(path)
        with storing(path):
            if not path.exists():
                _create(path)
        self._count_file = count_file_of(path)
        self._place = _place_of(path)
        with _store_errors(self._path):
            self._writer = _connect(path)
            self._reader = _connect(path)
            check_form(self._writer, path)
            check_pages(self._writer, path)
            check_types(self._writer, path)
            self._count = count_of(self._writer, path)
            self._check_count()
            self._writer.execute("PRAGMA journal_mode = WAL")  # it may have been set back
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("BEGIN IMMEDIATE")  # what cannot be written is said at once
            self._writer.execute("ROLLBACK")
            self._reader.execute("PRAGMA query_only = ON")
        with storing(self._count_file):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._count_descriptor = os.open(self._count_file, flags, 0o600)
            self._note_count()

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
        os.close(self._count_descriptor)
        with _store_errors(self._path):
            self._reader.close()
            self._writer.close()

    async def commit(self, writes: Sequence[Write]) -> None:
        # Not abandoned on cancellation: when this returns or raises, the outcome is settled.
        await trio.to_thread.run_sync(self._commit, tuple(writes), limiter=self._turn)

    def get(self, table: Table, key: bytes) -> bytes | None:
        with _store_errors(self._path):
            row = self._reader.execute(
                f"SELECT key, value, sum FROM {table.value} WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else self._checked(table, row)[1]

    def scan(
        self, table: Table, prefix: bytes, *, after: bytes = b"", limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        start = "key > ?" if after and after >= prefix else "key >= ?"
        clause, arguments = _below(prefix)
        with _store_errors(self._path):
            rows = self._reader.execute(
                f"SELECT key, value, sum FROM {table.value} WHERE {start}{clause} "
                "ORDER BY key LIMIT ?",
                (max(after, prefix), *arguments, limit),
            ).fetchall()
        return [self._checked(table, row) for row in rows]

    def last(self, table: Table, prefix: bytes) -> tuple[bytes, bytes] | None:
        clause, arguments = _below(prefix)
        with _store_errors(self._path):
            row = self._reader.execute(
                f"SELECT key, value, sum FROM {table.value} WHERE key >= ?{clause} "
                "ORDER BY key DESC LIMIT 1",
                (prefix, *arguments),
            ).fetchone()
        return None if row is None else self._checked(table, row)

    def _checked(self, table: Table, row: Sequence[object]) -> tuple[bytes, bytes]:
        key, value, found = blobs(self._path, table, row)
        if found != _sum(table, key, value):
            raise changed(self._path, table.value)
        return key, value

    def _commit(self, writes: tuple[Write, ...]) -> None:
        # What is written into a file that has no name any more is gone with the process; SQLite does not look.
        if _place_of(self._path) != self._place:
            raise StoreError(
                f"{self._path} was removed or replaced while this node runs: nothing can be stored "
                "any more; end what did it, put the file back, and start again"
            )
        with _store_errors(self._path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for write in writes:
                    self._apply(write)
                noted = self._writer.execute("UPDATE commits SET count = ?", (self._count + 1,))
                if noted.rowcount != 1:
                    raise changed(self._path, COMMITS)
                self._writer.execute("COMMIT")
            finally:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
        self._count += 1
        with storing(self._count_file):
            self._note_count()

    def _note_count(self) -> None:
        count = self._count.to_bytes(COUNT_BYTES)
        os.pwrite(self._count_descriptor, count + _short_hash(count), 0)

    def _apply(self, write: Write) -> None:
        table = write.table.value
        if write.value is None:
            self._writer.execute(f"DELETE FROM {table} WHERE key = ?", (write.key,))
        else:
            self._writer.execute(
                f"INSERT INTO {table} VALUES (?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value, sum = excluded.sum",
                (write.key, write.value, _sum(write.table, write.key, write.value)),
            )

    def _check_count(self) -> None:
        """Raises StoreError: there were more commits once."""
        lacking = _noted(self._count_file) - self._count
        if lacking > 0:
            raise StoreError(
                LACKING.format(
                    path=self._path, lacking=counted(lacking, "commit"), count=self._count_file
                )
            )


def count_file_of(path: Path) -> Path:
    return path.with_suffix(".count")


def _noted(path: Path) -> int:
    """What the file of the count says; 0 where it is missing or was damaged."""
    with storing(path):
        try:
            with open_file(path) as file:
                data = file.read(COUNT_BYTES + SUM_BYTES)
        except FileNotFoundError:
            return 0
    count = data[:COUNT_BYTES]
    return int.from_bytes(count) if data[COUNT_BYTES:] == _short_hash(count) else 0


def _short_hash(data: bytes) -> bytes:
    return sha256(data).digest()[:SUM_BYTES]


def _sum(table: Table, key: bytes, value: bytes) -> bytes:
    return _short_hash(b"".join((table.value.encode(), b"\0", len(key).to_bytes(4), key, value)))


def _check_files(path: Path) -> None:
    """Refuses what SQLite would stumble over, or wait for, without a word that helps."""
    companions = (path.with_name(path.name + suffix) for suffix in COMPANIONS)
    for name in (path, *companions, count_file_of(path)):
        with storing(name):
            if name.is_symlink():
                raise StoreError(
                    f"{name}: a symbolic link: these files must lie side by side: put the file itself here, "
                    "or link the whole data directory"
                )
            if name.exists() and not name.is_file():
                raise StoreError(f"{name}: not a file: move it away and restore a copy")


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # our own bug: a closed ledger, a wrong argument
    except sqlite3.DatabaseError as error:
        raise _store_error(path, error) from error
    except UnicodeDecodeError as error:  # of what SQLite would say
        raise damaged(path, NO_TEXT) from error


def _connect(path: Path) -> sqlite3.Connection:
    # The writer moves between threads, one at a time. isolation_level None: BEGIN is ours to say.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    read_any_text(connection)
    return connection


def _place_of(path: Path) -> tuple[int, int] | None:
    """Which file lies there; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _create(path: Path) -> None:
    """Built aside and renamed: a ledger that exists is whole; an empty file is never one."""
    strays = [path.with_name(path.name + suffix) for suffix in COMPANIONS]
    for stray in (*strays, count_file_of(path)):
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
        create_tables(connection)
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
    text = one_line(str(error))
    # Its log's index and its syncs meet a full disk too, and SQLite takes that for a failing one.
    failed = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    if code == sqlite3.SQLITE_FULL or (failed and free_bytes(path.parent) < LEAST_BYTES):
        return NoRoomError(f"{path}: the disk is full: free some space")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        # The last is said of a table that has gone: what is asked for is always the same.
        return damaged(path, text)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"{path}: another program holds it ({text}): end that program")
    return StoreError(f"{path}: {text}: check that the disk has space and the file can be written")
