"""What another program, or a disk, can do to a ledger works or is named."""

import shutil
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
import trio

from p2pd.errors import StoreError
from p2pd.io.ledger import SqliteLedger
from p2pd.ports import Table, Write


def commit(ledger: SqliteLedger, *writes: Write) -> None:
    trio.run(ledger.commit, writes)


def put(key: bytes, value: bytes, table: Table = Table.PEERS) -> Write:
    return Write(table, key, value)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[bytes, bytes]]]:
    """A ledger of some pages, closed, and its rows."""
    path = tmp_path_factory.mktemp("filled") / "ledger.sqlite"
    with SqliteLedger(path) as ledger:
        commit(ledger, *(put(bytes([n]), bytes([n]) * 700) for n in range(40)))
        return path, ledger.scan(Table.PEERS, b"")


TAMPERED = [
    ("DELETE FROM commits", "its table commits was changed"),
    ("INSERT INTO commits VALUES (3)", "its table commits was changed"),
    ("UPDATE commits SET count = 'abc'", "its table commits was changed"),
    ("UPDATE commits SET count = x'ff'", "its table commits was changed"),
    ("UPDATE commits SET count = 1e300", "its table commits was changed"),
    ("UPDATE commits SET count = 9223372036854775807", "its table commits was changed"),
    ("UPDATE commits SET count = -1", "its table commits was changed"),
    ("DROP TABLE commits", "its table commits is missing"),
    ("DROP TABLE reports", "its table reports is missing"),
    ("UPDATE peers SET value = 'abc'", "a row of its table peers was changed"),
    ("UPDATE peers SET value = CAST(x'ff' AS TEXT)", "a row of its table peers was changed"),
    ("UPDATE peers SET value = 7", "a row of its table peers was changed"),
    ("UPDATE peers SET sum = 1e300", "a row of its table peers was changed"),
    ("UPDATE peers SET key = 'abc' WHERE key = x'07'", "a row of its table peers was changed"),
    ("ALTER TABLE peers DROP COLUMN sum", "its table peers is another one"),
    ("ALTER TABLE peers ADD COLUMN more", "its table peers is another one"),
    ("ALTER TABLE commits RENAME COLUMN count TO counted", "its table commits is another one"),
    ("CREATE INDEX mine ON peers (value)", "index mine is none of p2pd's"),
    ("CREATE TABLE mine (key)", "table mine is none of p2pd's"),
    (
        "CREATE TRIGGER mine BEFORE INSERT ON voting BEGIN SELECT RAISE(IGNORE); END",
        "trigger mine is none of p2pd's",
    ),
    (
        "ALTER TABLE peers RENAME TO p; CREATE VIEW peers AS SELECT * FROM p",
        "its table peers is another one",
    ),
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = CAST(x'43ff' AS TEXT)",
        "malformed database schema",
    ),
    ("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema", "table decisions is missing"),
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = CAST(x'ff' AS TEXT), sql = 'no'",
        "its tables have names that are no text",
    ),
    ("PRAGMA user_version = -3", "it is of version -3"),
]


def tampered(origin: Path, path: Path, script: str) -> Path:
    shutil.copy(origin, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


@pytest.mark.parametrize(("script", "why"), TAMPERED)
def test_i10_what_another_program_changed_is_damage_and_named(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path, script: str, why: str
) -> None:
    path = tampered(filled[0], tmp_path / "ledger.sqlite", script)
    with pytest.raises(StoreError, match=r"ledger\.sqlite is damaged .*: restore a copy") as said:
        SqliteLedger(path)
    assert why in str(said.value)
    assert len(str(said.value).splitlines()) == 1


def test_i10_whatever_stands_in_its_header_a_ledger_works_or_is_named(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path
) -> None:
    origin, rows = filled
    whole = origin.read_bytes()
    for offset, byte in product(range(16, 100, 3), (0, 5, 255)):
        path = tmp_path / f"{offset}-{byte}.sqlite"
        path.write_bytes(whole[:offset] + bytes([byte]) + whole[offset + 1 :])
        try:
            with SqliteLedger(path) as ledger:
                assert ledger.scan(Table.PEERS, b"") == rows, offset
        except StoreError as error:
            assert str(path) in str(error)  # noqa: PT017 - it may also work


@pytest.mark.parametrize(
    "script",
    [
        "PRAGMA journal_mode = DELETE",
        "PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM",
        "PRAGMA auto_vacuum = FULL; VACUUM",
        "PRAGMA application_id = 7",
        "ANALYZE",
        "REINDEX",
    ],
)
def test_what_changes_nothing_that_is_stored_is_no_damage(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path, script: str
) -> None:
    path = tampered(filled[0], tmp_path / "ledger.sqlite", script)
    for _ in range(2):
        with SqliteLedger(path) as ledger:
            assert ledger.scan(Table.PEERS, b"") == filled[1]
            commit(ledger, put(b"key", b"value", Table.OBJECTS))
            assert ledger._reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("value", ["'abc'", "7", "1e300", "CAST(x'ff' AS TEXT)"])
def test_i10_a_row_that_changes_while_the_node_runs_is_named_when_it_is_read(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path, value: str
) -> None:
    path = tmp_path / "ledger.sqlite"
    shutil.copy(filled[0], path)
    with SqliteLedger(path) as ledger, closing(sqlite3.connect(path)) as other:
        other.executescript(f"UPDATE peers SET value = {value}; DELETE FROM commits")
        reads = (
            lambda: ledger.get(Table.PEERS, b"\x01"),
            lambda: ledger.scan(Table.PEERS, b""),
            lambda: ledger.last(Table.PEERS, b""),
            lambda: commit(ledger, put(b"key", b"value")),
        )
        for read in reads:
            with pytest.raises(StoreError, match=r"damaged \(a row of its table \w+ was changed\)"):
                read()
        assert ledger.get(Table.PEERS, b"key") is None


def test_another_program_that_holds_the_ledger_is_said(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    shutil.copy(filled[0], path)
    monkeypatch.setattr("p2pd.io.ledger.BUSY_S", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"ledger\.sqlite: another program holds it"):
            SqliteLedger(path)
