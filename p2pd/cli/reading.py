"""The chain in a data directory, read only: also while its node runs.

One read transaction: everything that is read belongs to one moment.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from p2pd.cli.inputs import read_genesis
from p2pd.core.derive import Setting
from p2pd.core.genesis import Genesis
from p2pd.core.governance import LogPlace, SignedGovernance, beginning, check_endorsed
from p2pd.core.ids import ID_BYTES, RevisionId
from p2pd.core.messages import Report
from p2pd.core.revision import Revision
from p2pd.core.signed import Signed
from p2pd.errors import RemoteError, StoreError, UsageError
from p2pd.io.durable import exists
from p2pd.io.ledger_form import (
    LEDGER,
    NO_TEXT,
    blobs,
    changed,
    check_form,
    check_types,
    damaged,
    read_any_text,
)
from p2pd.ports import Table
from p2pd.wire.envelope import load
from p2pd.wire.records import OtherNetworkError, load_governance, load_revision

HEIGHT_BYTES = 8
KEY_BYTES = {
    Table.REVISIONS: ID_BYTES,
    Table.DECISIONS: ID_BYTES + HEIGHT_BYTES,
    Table.GOVERNANCE: HEIGHT_BYTES,
    Table.REPORTS: 2 * ID_BYTES + HEIGHT_BYTES,
}
BUSY_S = 5.0
BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


@dataclass(frozen=True, slots=True)
class Chain:
    """One revision's decisions and what belongs to them."""

    setting: Setting
    blobs: Path
    _connection: sqlite3.Connection

    @property
    def _ledger(self) -> Path:
        return self.blobs.parent / LEDGER

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Height and decision record, ascending."""
        prefix = self.setting.revision.id
        for key, value in _rows(self._connection, self._ledger, Table.DECISIONS, prefix):
            yield int.from_bytes(key[len(prefix) :]), value

    def record(self, height: int) -> bytes | None:
        key = self.setting.revision.id + height.to_bytes(HEIGHT_BYTES)
        found = _rows(self._connection, self._ledger, Table.DECISIONS, key)
        return next((value for _, value in found), None)

    def other(self, revision: RevisionId) -> "Chain | None":
        """That of another revision, where the same ledger has it."""
        genesis = self.setting.genesis
        for _, value in _rows(self._connection, self._ledger, Table.REVISIONS, revision):
            return replace(self, setting=Setting(genesis, load_revision(value, genesis).revision))
        return None

    def log_place(self) -> LogPlace:
        """How far this node's copy of the governance log goes.

        Raises:
            StoreError: it is damaged.
        """
        place = beginning(self.setting.genesis.network)
        for signed in self.governance():
            place = signed.place
        return place

    def governance(self) -> list[SignedGovernance]:
        """All records, ascending. Raises StoreError: one is damaged, or does not follow."""
        genesis, found = self.setting.genesis, list[SignedGovernance]()
        place = beginning(genesis.network)
        for _, value in _rows(self._connection, self._ledger, Table.GOVERNANCE, b""):
            try:
                signed = load_governance(value, genesis.network)
                check_endorsed(genesis, signed)
            except RemoteError as error:
                raise self._damaged(place, str(error)) from error
            if not place.takes(signed.record):
                raise self._damaged(place, "it does not follow")
            found.append(signed)
            place = signed.place
        return found

    def _damaged(self, place: LogPlace, why: str) -> StoreError:
        number = place.number + 1
        return StoreError(
            f"{self.blobs.parent}: governance record {number} is damaged ({why}): restore the ledger"
        )

    def last_height(self) -> int:
        """Raises StoreError where there is no decision at all."""
        heights = [height for height, _ in self.records()]
        if not heights:
            raise StoreError(
                f"{self.blobs.parent}: no decision of this revision is here yet: start its node"
            )
        return heights[-1]

    def reports(self, height: int) -> list[Signed[Report]]:
        """What validators measured of the head of a height.

        Raises:
            RemoteError: a report is not what one of them signed.
        """
        genesis = self.setting.genesis
        named = {seat.key for seat in genesis.validators}
        key = self.setting.revision.id + height.to_bytes(HEIGHT_BYTES)
        reports = []
        for _, value in _rows(self._connection, self._ledger, Table.REPORTS, key):
            report = load(value, genesis.network)
            if not isinstance(report.content, Report) or report.author not in named:
                raise RemoteError(f"height {height}: a report is not of a validator")
            if report.scope != self.setting.scope(height):
                raise RemoteError(f"height {height}: a report belongs elsewhere")
            reports.append(report)
        return reports


@contextmanager
def open_chain(genesis_file: Path, data_dir: Path, revision: str) -> Iterator[Chain]:
    """The chain of the one revision in data_dir whose id or name begins with revision.

    Raises:
        UsageError: there is no ledger, no such revision, or several.
        StoreError: the ledger cannot be read, or holds a revision that the authority never signed.
    """
    genesis = read_genesis(genesis_file)
    with open_ledger(data_dir) as connection:
        chosen = _choose(_revisions(connection, genesis, data_dir), revision, data_dir)
        yield Chain(Setting(genesis, chosen), data_dir / "blobs", connection)


@contextmanager
def open_ledger(data_dir: Path) -> Iterator[sqlite3.Connection]:
    path = data_dir / LEDGER
    if not exists(path):
        raise UsageError(f"{data_dir}: no ledger here: is it the data directory of a node?")
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S, isolation_level=None
        )
        try:
            connection.execute("BEGIN")
            read_any_text(connection)
            check_form(connection, path)
            check_types(connection, path)
            yield connection
        finally:
            connection.close()
    except UnicodeDecodeError as error:
        raise damaged(path, NO_TEXT) from error
    except sqlite3.DatabaseError as error:
        broken = error.sqlite_errorcode & 0xFF in BROKEN
        advice = "restore a copy" if broken else "check owner and mode of it and its directory"
        raise StoreError(f"{path}: cannot be read ({error}): {advice}") from error


def revisions_in(data_dir: Path, genesis: Genesis) -> list[Revision]:
    """All revisions that a node has, ascending by id."""
    with open_ledger(data_dir) as connection:
        return _revisions(connection, genesis, data_dir)


def _revisions(connection: sqlite3.Connection, genesis: Genesis, data_dir: Path) -> list[Revision]:
    found = []
    for key, value in _rows(connection, data_dir / LEDGER, Table.REVISIONS, b""):
        try:
            revision = load_revision(value, genesis).revision
        except OtherNetworkError as error:
            raise UsageError(f"{data_dir}: {error}: name the two that belong together") from error
        except RemoteError as error:
            raise StoreError(
                f"{data_dir}: revision {key.hex()[:10]} is damaged ({error}): restore the ledger"
            ) from error
        if revision.id != key:
            raise StoreError(
                f"{data_dir}: revision {key.hex()[:10]}: another one is kept under its id: "
                "restore the ledger"
            )
        found.append(revision)
    return found


def _place(revision: Revision) -> str:
    return f"{revision.study}/{revision.experiment}/{revision.name}"


def _choose(found: list[Revision], wanted: str, data_dir: Path) -> Revision:
    fitting = [r for r in found if r.id.hex().startswith(wanted) or wanted in (r.name, _place(r))]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UsageError(
            f"{data_dir}: no revision {wanted or 'at all'} is here: see p2pd experiment list"
        )
    names = ", ".join(f"{_place(r)} or {r.id.hex()[:10]}" for r in fitting)
    raise UsageError(f"{data_dir}: several revisions fit: choose one by --revision: {names}")


def _rows(
    connection: sqlite3.Connection, path: Path, table: Table, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    # Keys have fixed lengths, so padding with the highest byte ends the range.
    end = prefix + b"\xff" * (2 * ID_BYTES + HEIGHT_BYTES)
    query = f"SELECT key, value FROM {table.value} WHERE key >= ? AND key <= ? ORDER BY key"
    for row in connection.execute(query, (prefix, end)):
        key, value = blobs(path, table, row)
        if len(key) != KEY_BYTES[table]:
            raise changed(path, table.value)
        yield key, value
