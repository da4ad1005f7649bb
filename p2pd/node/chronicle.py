"""One revision's decisions in the ledger: what was adopted, what was voted, what this node published."""

from collections.abc import Iterator
from typing import Any

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting, genesis_decision
from p2pd.core.encoding import decode, encode
from p2pd.core.forks import Fork
from p2pd.core.ids import NetworkId, PublicKey, RevisionId
from p2pd.core.messages import Report
from p2pd.core.signed import Signed
from p2pd.errors import RemoteError, StoreError
from p2pd.ports import Ledger, Table, Write
from p2pd.wire.envelope import dump, load
from p2pd.wire.records import dump_record, load_record

HEIGHT_BYTES = 8


def place(revision: RevisionId, height: int) -> bytes:
    """The key of a height: revision, then the height, so that heights sort."""
    return revision + height.to_bytes(HEIGHT_BYTES)


class Chronicle:
    def __init__(self, ledger: Ledger, setting: Setting) -> None:
        self._ledger = ledger
        self._revision = setting.revision.id
        self._lookahead = setting.revision.schedule.lookahead
        """So many heights before the open one may own updates still be decided."""
        self._network: NetworkId = setting.genesis.network
        self.unsaved: list[Signed[Report]] = []
        """Reports that wait to be stored."""
        self._genesis = Record(genesis_decision(setting), None)

    async def last(self) -> Decision:
        """The last decision adopted; the genesis decision, stored now, on a new ledger.

        Raises:
            StoreError: what is stored cannot be read; nothing falls back to genesis in silence.
        """
        found = self._ledger.last(Table.DECISIONS, self._revision)
        if found is not None:
            return self._read(found[1]).decision
        key = place(self._revision, 0)
        await self._ledger.commit([Write(Table.DECISIONS, key, dump_record(self._genesis))])
        return self._genesis.decision

    def record(self, height: int) -> Record | None:
        data = self._ledger.get(Table.DECISIONS, place(self._revision, height))
        return None if data is None else self._read(data)

    def newest(self, count: int) -> Iterator[Decision]:
        """The decisions that are here of the newest heights, so many of them, the newest first."""
        found = self._ledger.last(Table.DECISIONS, self._revision)
        if found is None:
            return
        height = self._height(found[0])
        yield self._read(found[1]).decision
        for earlier in range(height - 1, max(-1, height - count), -1):
            record = self.record(earlier)
            if record is not None:
                yield record.decision

    def next_record(self, height: int) -> Record | None:
        """Of this height, or of the first above it that is here."""
        row = self._above(height - 1)
        return None if row is None else self._read(row[1])

    def _read(self, data: bytes) -> Record:
        try:
            return load_record(data, self._network)
        except RemoteError as error:
            raise StoreError(
                f"a stored decision is damaged: {error}; restore the ledger"
            ) from error

    def records_after(self, height: int, limit_bytes: int) -> tuple[bytes, ...]:
        """Encoded records, ascending without a gap, as many as fit."""
        found: list[bytes] = []
        size = 0
        rows = self._ledger.scan(
            Table.DECISIONS, self._revision, after=place(self._revision, height), limit=64
        )
        for key, data in rows:
            size += len(data)
            height += 1
            if size > limit_bytes or key != place(self._revision, height):
                break
            found.append(data)
        return tuple(found)

    def farthest(self, height: int) -> tuple[bytes, ...]:
        """The encoded record of the farthest decision that the set which follows a height has certified; () if none.

        That is the newest one, or the first at which that set handed over to another. Heights may be missing here:
        what this node leapt over itself.
        """
        first, last = self._above(height), self._ledger.last(Table.DECISIONS, self._revision)
        if first is None or last is None:
            return ()
        members = self._members(first[1])
        if self._members(last[1]) == members:
            return (last[1],)
        low, high = self._height(first[0]), self._height(last[0])
        found = first[1]
        while (
            high - low > 1
        ):  # what is at low is of that set, the first from high on is of a later one
            middle = (low + high) // 2
            row = self._above(middle - 1)
            if row is not None and self._members(row[1]) == members:
                low, found = self._height(row[0]), row[1]
            else:
                high = middle
        return (found,)

    def _above(self, height: int) -> tuple[bytes, bytes] | None:
        """The first row above a height."""
        after = place(self._revision, height)
        rows = self._ledger.scan(Table.DECISIONS, self._revision, after=after, limit=1)
        return rows[0] if rows else None

    def _members(self, data: bytes) -> bytes:
        """Hash of the set that signed a record."""
        return self._read(data).decision.header.members

    def _height(self, key: bytes) -> int:
        return int.from_bytes(key[len(self._revision) :][:HEIGHT_BYTES])

    async def adopt(self, record: Record) -> bytes:
        """Stores a decision and forgets what concerned only the heights before it. Returns the encoded record."""
        height, encoded = record.decision.height, dump_record(record)
        writes = [Write(Table.DECISIONS, place(self._revision, height), encoded)]
        for table, open_heights in ((Table.OBJECTS, self._lookahead), (Table.VOTING, 0)):
            rows = self._ledger.scan(table, self._revision)
            end = place(self._revision, max(0, height + 1 - open_heights))
            writes += [Write(table, key, None) for key, _ in rows if key < end]
        await self._ledger.commit(writes)
        return encoded

    def votes(self, height: int) -> bytes | None:
        return self._ledger.get(Table.VOTING, place(self._revision, height))

    async def remember_votes(self, height: int, state: bytes) -> None:
        await self._ledger.commit([Write(Table.VOTING, place(self._revision, height), state)])

    async def keep_own(self, signed: Signed[Any]) -> None:
        key = place(self._revision, signed.scope.height) + signed.id
        await self._ledger.commit([Write(Table.OBJECTS, key, dump(signed))])

    def own(self, height: int, author: PublicKey) -> tuple[Signed[Any], ...]:
        """What was said of the open height; with lookahead also of the one before: its updates may still be decided."""
        objects = []
        for place_of in range(max(0, height - self._lookahead), height + 1):
            rows = self._ledger.scan(Table.OBJECTS, place(self._revision, place_of))
            objects += [self._opened(data) for _, data in rows]
        return tuple(one for one in objects if one.author == author)

    async def save_reports(self) -> None:
        reports = list(self.unsaved)
        if not reports:
            return
        writes = []
        for report in reports:
            key = place(self._revision, report.scope.height) + report.signer
            writes.append(Write(Table.REPORTS, key, dump(report)))
        await self._ledger.commit(writes)
        del self.unsaved[: len(reports)]

    def reports(self, height: int) -> tuple[Signed[Report], ...]:
        """Those that are not stored yet as well."""
        rows = self._ledger.scan(Table.REPORTS, place(self._revision, height))
        found = {report.signer: report for report in (self._opened(data) for _, data in rows)}
        found |= {one.signer: one for one in self.unsaved if one.scope.height == height}
        return tuple(found.values())

    def last_reported(self) -> int | None:
        """The newest height for which there are reports."""
        heights = [one.scope.height for one in self.unsaved]
        row = self._ledger.last(Table.REPORTS, self._revision)
        if row is not None:
            heights.append(self._height(row[0]))
        return max(heights, default=None)

    def _opened(self, data: bytes) -> Signed[Any]:
        try:
            return load(data, self._network)
        except RemoteError as error:
            raise StoreError(f"a stored object is damaged: {error}; restore the ledger") from error

    async def keep_fork(self, fork: Fork) -> None:
        key = place(self._revision, fork.height)
        await self._ledger.commit([Write(Table.FORKS, key, encode(fork))])

    def fork(self) -> Fork | None:
        """Raises StoreError: what is stored cannot be read."""
        found = self._ledger.last(Table.FORKS, self._revision)
        if found is None:
            return None
        try:
            return decode(Fork, found[1], limit_bytes=len(found[1]))
        except RemoteError as error:
            raise StoreError(f"a stored fork is damaged: {error}; restore the ledger") from error

    async def keep_revision(self, signed_revision: object) -> None:
        data = encode(signed_revision)
        if self._ledger.get(Table.REVISIONS, self._revision) == data:
            return
        await self._ledger.commit([Write(Table.REVISIONS, self._revision, data)])
