"""The form of a ledger: its version, its tables, and what stands in them.

SQLite itself lets any value stand in any column, and any program add what it likes: a trigger that drops
votes, a view in a table's place. So all that is not as p2pd makes it is refused. Source: "The Schema
Table" and "Datatypes In SQLite", https://sqlite.org/schematab.html, https://sqlite.org/datatype3.html.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from p2pd.errors import StoreError
from p2pd.ports import Table

LEDGER = "ledger.sqlite"
"""In the data directory of a node."""
VERSION = 5
"""Of the tables, in SQLite's user_version. Another set of tables, or another form of one, is another version."""
DAMAGED = (
    "{path} is damaged ({why}): restore a copy, or move it and all that is named like it away to begin anew; "
    "a validator that begins anew forgets which votes it sent"
)
NO_TEXT = "its tables have names that are no text"
COMMITS = "commits"
COUNT_MOST = 2**53
"""Of commits: a thousand a second for 285,000 years."""
STATISTICS = ("sqlite_stat1", "sqlite_stat4")
"""What ANALYZE adds; it changes nothing that is read."""

FORM = {
    table.value: f"CREATE TABLE {table.value} "
    "(key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL, sum BLOB NOT NULL) WITHOUT ROWID"
    for table in Table
} | {COMMITS: f"CREATE TABLE {COMMITS} (count INTEGER NOT NULL)"}
"""How each table is made, and what SQLite keeps of that, word by word."""


def damaged(path: Path, why: str) -> StoreError:
    return StoreError(DAMAGED.format(path=path, why=one_line(why)))


def one_line(text: str) -> str:
    return " ".join(text.split())


def create_tables(connection: sqlite3.Connection) -> None:
    for statement in FORM.values():
        connection.execute(statement)
    connection.execute(f"INSERT INTO {COMMITS} VALUES (0)")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def read_any_text(connection: sqlite3.Connection) -> None:
    """Text is damage, and must not be stumbled over where it is none in UTF-8 either."""
    connection.text_factory = lambda data: data.decode(errors="replace")


def check_form(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError: it is no ledger, a newer p2pd wrote it, or somebody has changed its tables."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(
            f"{path} has version {version}, this p2pd knows up to {VERSION}: "
            "run the newer p2pd that wrote it"
        )
    if version < VERSION:
        raise damaged(path, f"it is of version {version}" if version else "it holds no ledger")
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    found = {name: (kind, sql) for kind, name, sql in rows if name not in STATISTICS}
    for name, sql in FORM.items():
        if name not in found:
            raise damaged(path, f"its table {name} is missing")
        if found[name] != ("table", sql):
            raise damaged(path, f"its table {name} is another one")
    for name in found.keys() - FORM.keys():
        raise damaged(path, f"{found[name][0]} {str(name)[:40]} is none of p2pd's")


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError: the file does not hang together."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, verdict)


def check_types(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError: a value is of a type that p2pd never stores, and no search would find its row."""
    for table in Table:
        wrong = " OR ".join(f"typeof({column}) <> 'blob'" for column in ("key", "value", "sum"))
        query = f"SELECT 1 FROM {table.value} WHERE {wrong} LIMIT 1"
        if connection.execute(query).fetchone() is not None:
            raise changed(path, table.value)


def changed(path: Path, table: str) -> StoreError:
    return damaged(path, f"a row of its table {table} was changed")


def blobs(path: Path, table: Table, row: Sequence[object]) -> tuple[bytes, ...]:
    """The values of a row; only the bytes that p2pd stores."""
    values = tuple(value for value in row if isinstance(value, bytes))
    if len(values) != len(row):
        raise changed(path, table.value)
    return values


def count_of(connection: sqlite3.Connection, path: Path) -> int:
    """How many commits there were."""
    rows = connection.execute(f"SELECT count FROM {COMMITS} LIMIT 2").fetchall()
    match rows:
        case [(int() as count,)] if 0 <= count <= COUNT_MOST:
            return count
    raise damaged(path, f"its table {COMMITS} was changed")
