import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from p2pd.errors import StoreError
from p2pd.io.ledger import SqliteLedger
from p2pd.io.ledger_form import VERSION
from p2pd.ports import Ledger, Table, Write
from tests.ports.ledger_contract import CONTRACT

KEYS = st.binary(max_size=3).map(lambda key: key.replace(b"\x02", b"\xff"))
TABLES = st.sampled_from([Table.PEERS, Table.OBJECTS])


def commit(ledger: SqliteLedger, *writes: Write) -> None:
    async def main() -> None:
        with trio.fail_after(10):
            await ledger.commit(writes)

    trio.run(main)


def put(key: bytes, value: bytes | None, table: Table = Table.PEERS) -> Write:
    return Write(table, key, value)


class LedgerAgainstDictionary(RuleBasedStateMachine):
    """The ledger and a dictionary agree, also after the ledger was closed and opened."""

    directory: Path
    count = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).count += 1
        self.path = self.directory / f"{self.count}.sqlite"
        self.ledger = SqliteLedger(self.path)
        self.twin: dict[tuple[Table, bytes], bytes] = {}

    def teardown(self) -> None:
        self.ledger.close()

    @rule(
        writes=st.lists(
            st.builds(Write, TABLES, KEYS, st.none() | st.binary(max_size=3)), max_size=6
        )
    )
    def commits(self, writes: list[Write]) -> None:
        commit(self.ledger, *writes)
        for write in writes:
            self.twin.pop((write.table, write.key), None)
            if write.value is not None:
                self.twin[write.table, write.key] = write.value

    @rule()
    def opens_again(self) -> None:
        self.ledger.close()
        self.ledger = SqliteLedger(self.path)

    @rule(table=TABLES, prefix=KEYS, after=KEYS, limit=st.integers(1, 4))
    def scans(self, table: Table, prefix: bytes, after: bytes, limit: int) -> None:
        found = [
            (key, value)
            for (owner, key), value in sorted(self.twin.items(), key=lambda item: item[0][1])
            if owner is table and key.startswith(prefix)
        ]
        beyond = [(key, value) for key, value in found if key > after or not after]
        assert self.ledger.scan(table, prefix, after=after, limit=limit) == beyond[:limit]
        assert self.ledger.last(table, prefix) == (found[-1] if found else None)

    @invariant()
    def holds_the_same(self) -> None:
        for table in (Table.PEERS, Table.OBJECTS):
            for key in (b"", b"\xff", b"\x00"):
                assert self.ledger.get(table, key) == self.twin.get((table, key))


def test_the_ledger_agrees_with_a_dictionary(tmp_path: Path) -> None:
    class Case(LedgerAgainstDictionary):
        directory = tmp_path

    run_state_machine_as_test(
        Case, settings=settings(max_examples=25, stateful_step_count=20, deadline=None)
    )


@pytest.mark.parametrize("clause", CONTRACT)
def test_the_ledger_keeps_the_contract(
    tmp_path: Path, clause: Callable[[Ledger], Awaitable[None]]
) -> None:
    with SqliteLedger(tmp_path / "ledger.sqlite") as ledger:
        trio.run(clause, ledger)


def test_each_table_is_apart(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.sqlite") as ledger:
        commit(ledger, *(put(b"key", table.value.encode(), table) for table in Table))
        assert [ledger.get(table, b"key") for table in Table] == [
            table.value.encode() for table in Table
        ]


def test_a_scan_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.sqlite") as ledger:
        commit(ledger, *(put(b"p" + bytes([n]), b"") for n in range(7)), put(b"q", b""))
        first = ledger.scan(Table.PEERS, b"p", limit=4)
        rest = ledger.scan(Table.PEERS, b"p", after=first[-1][0], limit=4)
        assert [key[1] for key, _ in first + rest] == list(range(7))


def test_i10_a_full_disk_keeps_nothing_of_a_commit_and_the_next_one_works(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.sqlite") as ledger:
        commit(ledger, put(b"old", b"1"))
        (pages,) = ledger._writer.execute("PRAGMA page_count").fetchone()
        ledger._writer.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=r"ledger\.sqlite: the disk is full"):
            commit(ledger, put(b"old", b"2"), put(b"new", bytes(100_000)))
        assert (ledger.get(Table.PEERS, b"old"), ledger.get(Table.PEERS, b"new")) == (b"1", None)
        ledger._writer.execute(f"PRAGMA max_page_count = {pages + 1000}")
        commit(ledger, put(b"new", bytes(100_000)))
        assert ledger.get(Table.PEERS, b"new") == bytes(100_000)


@pytest.mark.parametrize("replaced", [False, True])
def test_i10_nothing_is_stored_where_nobody_will_find_it(tmp_path: Path, replaced: bool) -> None:
    """A vote in a file that was removed or replaced under a running node is forgotten with the process."""
    path, other = tmp_path / "ledger.sqlite", tmp_path / "other.sqlite"
    SqliteLedger(other).close()
    ledger = SqliteLedger(path)
    commit(ledger, put(b"1", b"one"))
    if replaced:
        other.replace(path)
    else:
        path.unlink()
    with pytest.raises(StoreError, match=r"ledger.sqlite was removed or replaced while this node"):
        commit(ledger, put(b"2", b"two"))
    ledger.close()


def test_i10_a_commit_is_in_the_file_when_the_process_ends_without_closing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with SqliteLedger(path) as ledger:
        commit(ledger, put(b"vote", b"cast"))
        crashed = tmp_path / "crashed.sqlite"
        for suffix in ("", "-wal"):  # what a killed process leaves: no checkpoint took place
            copy = crashed.with_name(crashed.name + suffix)
            copy.write_bytes(path.with_name(path.name + suffix).read_bytes())
    with SqliteLedger(crashed) as ledger:
        assert ledger.get(Table.PEERS, b"vote") == b"cast"


def test_i12_a_commit_runs_off_the_loop_and_in_order(tmp_path: Path) -> None:
    threads: set[int] = set()

    async def main(ledger: SqliteLedger) -> None:
        ledger._writer.set_trace_callback(lambda _: threads.add(threading.get_ident()))
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for n in range(20):
                    nursery.start_soon(
                        ledger.commit, [put(b"key", bytes([n])), put(bytes([n]), b"")]
                    )
        assert len(ledger.scan(Table.PEERS, b"")) == 21

    with SqliteLedger(tmp_path / "ledger.sqlite") as ledger:
        trio.run(main, ledger)
        assert threads
        assert threading.get_ident() not in threads


def test_a_cancelled_commit_is_settled_before_the_cancellation_shows(tmp_path: Path) -> None:
    async def main(ledger: SqliteLedger) -> bool:
        with trio.CancelScope() as scope:
            ledger._writer.set_trace_callback(lambda _: trio.from_thread.run_sync(scope.cancel))
            await ledger.commit([put(b"key", b"value")])
            return True
        return False

    with SqliteLedger(tmp_path / "ledger.sqlite") as ledger:
        assert trio.run(main, ledger), "the caller must hear that the commit took place"
        assert ledger.get(Table.PEERS, b"key") == b"value"


@given(content=st.binary(max_size=200))
@settings(max_examples=20, deadline=None)
def test_i10_a_file_that_is_no_ledger_is_refused_and_left_alone(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"ledger\.sqlite is damaged .* restore a copy"):
        SqliteLedger(path)
    assert path.read_bytes() == content


def test_i10_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with SqliteLedger(path) as ledger:
        commit(ledger, *(put(bytes([n]), bytes(3000)) for n in range(50)))
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xa5" * 4096 + whole[12288:])
    with pytest.raises(StoreError, match="is damaged"):
        SqliteLedger(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="is damaged"):
        SqliteLedger(path)


def test_a_ledger_of_a_newer_p2pd_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    SqliteLedger(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(StoreError, match=rf"ledger\.sqlite has version 7, .* up to {VERSION}"):
        SqliteLedger(path)


def test_i10_a_log_without_its_ledger_is_not_begun_anew(tmp_path: Path) -> None:
    stray = tmp_path / "ledger.sqlite-wal"
    stray.write_bytes(b"votes")
    with pytest.raises(StoreError, match=r"ledger\.sqlite-wal is here without ledger\.sqlite"):
        SqliteLedger(tmp_path / "ledger.sqlite")
    assert stray.read_bytes() == b"votes"


def test_i10_a_crash_while_the_ledger_was_made_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite.new").write_bytes(b"half")
    (tmp_path / "ledger.sqlite.new-wal").write_bytes(b"half")
    SqliteLedger(tmp_path / "ledger.sqlite").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.count", "ledger.sqlite"]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        SqliteLedger(tmp_path / "nowhere" / "ledger.sqlite")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[bytes, bytes]]]:
    """A ledger of some pages, closed, and its rows."""
    path = tmp_path_factory.mktemp("filled") / "ledger.sqlite"
    with SqliteLedger(path) as ledger:
        commit(ledger, *(put(bytes([n]), bytes([n]) * 700) for n in range(40)))
        return path, ledger.scan(Table.PEERS, b"")


def test_i10_whatever_bit_of_a_ledger_changes_no_row_is_read_wrongly(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path
) -> None:
    origin, rows = filled
    whole = origin.read_bytes()
    found = []
    for offset in range(0, len(whole), 599):
        path = tmp_path / f"{offset}.sqlite"
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0x10]) + whole[offset + 1 :])
        try:
            with SqliteLedger(path) as ledger:
                assert ledger.scan(Table.PEERS, b"") == rows, offset
        except StoreError as error:
            found.append(str(path) in str(error))
    assert len(found) > 20
    assert all(found)


def test_i10_commits_that_are_lacking_are_said_by_their_number(
    filled: tuple[Path, list[tuple[bytes, bytes]]], tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    shutil.copy(filled[0], path)
    with SqliteLedger(path) as ledger:
        for value in (b"1", b"2", b"3"):
            commit(ledger, put(b"key", value))
    shutil.copy(filled[0], path)
    with pytest.raises(StoreError, match=r"ledger\.sqlite lacks 3 commits at its end"):
        SqliteLedger(path)
    count = tmp_path / "ledger.count"
    count.write_bytes(bytes(7) + b"\x09" + bytes(8))  # its hash is wrong: it says nothing
    SqliteLedger(path).close()
    with SqliteLedger(path) as ledger:
        assert ledger.get(Table.PEERS, b"key") is None


def test_i10_a_crash_before_the_count_is_noted_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with SqliteLedger(path) as ledger:
        before = (tmp_path / "ledger.count").read_bytes()
        commit(ledger, put(b"key", b"value"))
    (tmp_path / "ledger.count").write_bytes(before)
    with SqliteLedger(path) as ledger:
        assert ledger.get(Table.PEERS, b"key") == b"value"
    assert (tmp_path / "ledger.count").read_bytes() != before
