"""What a simulated node keeps: ledger and artifacts in memory. Seconds are virtual.

A crash of the node is the cancellation of its tasks. The objects here outlive it and are handed to
the restarted node: what was committed stays, artifacts that were complete stay, half-fetched ones
may lose chunks, and of a commit under way either all is there or nothing: a torn end of the log is
none. A power cut also takes, tears or fills with garbage what was written and not synced: chunks of
half-fetched artifacts, and whole updates that were fetched shortly before.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from random import Random

import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, manifest_of
from p2pd.core.ids import ArtifactId, short
from p2pd.core.wording import counted
from p2pd.errors import LocalError, NoRoomError, RemoteError, StoreError
from p2pd.node.patience import take
from p2pd.ports import Table, Write
from p2pd.sim.disk import Disk


class Moment(Enum):
    """Where in a commit a fault may strike."""

    BEFORE = "before"
    """Nothing is durable yet."""
    AFTER = "after"
    """All of it is durable, and nobody knows."""


UNSYNCED_MOST = 8
"""Fetched updates, which nobody syncs: of so many the disk may not have seen all bytes yet."""


def torn(data: bytes, dice: Random) -> bytes | None:
    """What a power cut leaves of bytes that were not synced; None for nothing at all."""
    draw = dice.random()
    if draw < 0.4:
        return data
    if draw < 0.6:
        return None
    kept = dice.randrange(len(data) + 1)
    if draw < 0.8:
        return data[:kept]
    return data[:kept] + dice.randbytes(len(data) - kept)


CommitHook = Callable[[Moment, Sequence[Write]], None]
"""May cancel the node's tasks (a crash), or at BEFORE raise NoRoomError (a full disk)."""


class MemoryLedger:
    """Port Ledger. One commit at a time, first come first served, as in a database."""

    def __init__(self, disk: Disk | None = None, *, commit_s: float = 0.002) -> None:
        self.hook: CommitHook | None = None
        self.disk = Disk(Random(0)) if disk is None else disk
        self._commit_s = commit_s
        self._under_way: Sequence[Write] = ()
        self._values: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._keys: dict[Table, list[bytes]] = {table: [] for table in Table}
        self._writer = trio.Lock()

    async def commit(self, writes: Sequence[Write]) -> None:
        await take(self._writer)
        try:
            self._strike(Moment.BEFORE, writes)
            self.disk.check_room()
            self._under_way = writes
            try:
                await self.disk.sync(self._commit_s)
                self._finish()
            finally:
                self._under_way = ()
            self._strike(Moment.AFTER, writes)
            # A crash that struck just now takes effect here.
            await trio.lowlevel.checkpoint_if_cancelled()
        finally:
            self._writer.release()

    def crash(self, dice: Random) -> None:
        """What a crash does: nobody was told whether the commit under way was made."""
        if dice.random() < 0.5:
            self._finish()
        self._under_way = ()

    def copy(self, disk: Disk) -> "MemoryLedger":
        """As from a backup that was made now."""
        other = MemoryLedger(disk, commit_s=self._commit_s)
        other._values = {table: dict(values) for table, values in self._values.items()}
        other._keys = {table: list(keys) for table, keys in self._keys.items()}
        return other

    def _finish(self) -> None:
        for write in self._under_way:
            self._apply(write)
        self._under_way = ()

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self._values[table].get(key)

    def scan(
        self, table: Table, prefix: bytes, *, after: bytes = b"", limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        keys, values = self._keys[table], self._values[table]
        start = max(bisect_left(keys, prefix), bisect_right(keys, after) if after else 0)
        chosen = keys[start : min(start + limit, self._end(table, prefix))]
        return [(key, values[key]) for key in chosen]

    def last(self, table: Table, prefix: bytes) -> tuple[bytes, bytes] | None:
        end = self._end(table, prefix)
        if end == 0 or not self._keys[table][end - 1].startswith(prefix):
            return None
        key = self._keys[table][end - 1]
        return key, self._values[table][key]

    def _strike(self, moment: Moment, writes: Sequence[Write]) -> None:
        if self.hook is not None:
            self.hook(moment, writes)

    def _apply(self, write: Write) -> None:
        keys, values = self._keys[write.table], self._values[write.table]
        if write.value is None:
            if values.pop(write.key, None) is not None:
                del keys[bisect_left(keys, write.key)]
            return
        if write.key not in values:
            insort(keys, write.key)
        values[write.key] = write.value

    def _end(self, table: Table, prefix: bytes) -> int:
        """Index of the first key behind all that start with prefix."""
        head = prefix.rstrip(b"\xff")
        if not head:
            return len(self._keys[table])
        return bisect_left(self._keys[table], head[:-1] + bytes([head[-1] + 1]))


@dataclass(slots=True)
class _Blob:
    manifest: Manifest
    chunks: dict[int, bytes] = field(default_factory=dict)
    sound: bool = True
    """Its bytes are known to be its own; False: left by an earlier life, and not looked at yet."""

    @property
    def complete(self) -> bool:
        return len(self.chunks) == len(self.manifest.chunks)

    def drop_damaged(self) -> bool:
        """Whether any chunk was other than it should be."""
        if self.sound:
            return False
        hashes, before = self.manifest.chunks, len(self.chunks)
        self.chunks = {
            n: data for n, data in self.chunks.items() if sha256(data).digest() == hashes[n]
        }
        self.sound = True
        return len(self.chunks) < before

    def tear(self, dice: Random) -> None:
        left = {n: torn(data, dice) for n, data in self.chunks.items()}
        self.chunks = {n: data for n, data in left.items() if data is not None}


class MemoryBlobs:
    """Port BlobStore. What nobody pins makes room, oldest first, once the quota is used up."""

    def __init__(self, disk: Disk | None = None, *, quota_bytes: int = 2**32) -> None:
        self.disk = Disk(Random(0)) if disk is None else disk
        self._quota_bytes = quota_bytes
        self._blobs: dict[ArtifactId, _Blob] = {}
        self._pins: dict[ArtifactId, set[str]] = {}
        self._unsynced: dict[ArtifactId, None] = {}
        """Complete, oldest first."""
        self.kept: set[ArtifactId] = set()
        """Pinned for good."""

    def has(self, artifact: ArtifactId) -> bool:
        blob = self._blobs.get(artifact)
        return blob is not None and blob.complete

    async def check(self, artifact: ArtifactId) -> bool:
        await trio.lowlevel.checkpoint()
        return self._look(artifact) is not None and self.has(artifact)

    def _look(self, artifact: ArtifactId) -> _Blob | None:
        """Of a complete artifact all goes if any of it is damaged; of another one what is damaged."""
        blob = self._blobs.get(artifact)
        if blob is None:
            return None
        complete = blob.complete
        if blob.drop_damaged() and complete:
            del self._blobs[artifact]
            return None
        return blob

    async def keep(self, artifact: ArtifactId) -> None:
        await trio.lowlevel.checkpoint()
        self.kept.add(artifact)

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        blob = self._blobs.get(artifact)
        return None if blob is None else blob.manifest

    async def put(
        self, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes = b""
    ) -> ArtifactId:
        artifact = await self.begin(manifest_of(kind, schema, data, owner))
        for index in self.missing(artifact):
            start = index * CHUNK_BYTES
            await self.write(artifact, index, data[start : start + CHUNK_BYTES])
        self._unsynced.pop(artifact, None)
        return artifact

    async def put_fetched(
        self, artifact: ArtifactId, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes
    ) -> bool:
        await trio.lowlevel.checkpoint()
        if manifest_of(kind, schema, data, owner).id != artifact:
            return False
        await self.put(kind, schema, data, owner)
        return True

    async def begin(self, manifest: Manifest) -> ArtifactId:
        await trio.lowlevel.checkpoint()
        artifact = manifest.id
        if self._look(artifact) is None:
            self.disk.check_room()
            self._make_room(manifest)
            self._blobs[artifact] = _Blob(manifest)
        return artifact

    def missing(self, artifact: ArtifactId) -> tuple[int, ...]:
        blob = self._begun(artifact)
        return tuple(n for n in range(len(blob.manifest.chunks)) if n not in blob.chunks)

    async def write(self, artifact: ArtifactId, index: int, data: bytes) -> None:
        await self.disk.sync(0.0)
        self.disk.check_room()
        blob = self._begun(artifact)
        hashes = blob.manifest.chunks
        if not 0 <= index < len(hashes) or sha256(data).digest() != hashes[index]:
            raise RemoteError(
                f"not chunk {index} of {short(artifact)}: {counted(len(data), 'byte')}"
            )
        blob.chunks[index] = bytes(data)
        if blob.complete and blob.manifest.kind is ArtifactKind.UPDATE:
            self._unsynced[artifact] = None
            if len(self._unsynced) > UNSYNCED_MOST:
                del self._unsynced[next(iter(self._unsynced))]

    async def read(self, artifact: ArtifactId, index: int) -> bytes | None:
        await trio.lowlevel.checkpoint()
        blob = self._look(artifact)
        return None if blob is None else blob.chunks.get(index)

    def pin(self, artifact: ArtifactId, owner: str) -> None:
        self._pins.setdefault(artifact, set()).add(owner)

    def unpin(self, artifact: ArtifactId, owner: str) -> None:
        owners = self._pins.get(artifact, set())
        owners.discard(owner)
        if not owners:
            self._pins.pop(artifact, None)

    def held(self, kind: ArtifactKind) -> tuple[Manifest, ...]:
        return tuple(blob.manifest for blob in self._blobs.values() if blob.manifest.kind is kind)

    def touch(self, artifact: ArtifactId) -> None:
        if self.has(artifact):
            self._blobs[artifact] = self._blobs.pop(artifact)

    async def drop(self, artifact: ArtifactId) -> bool:
        await trio.lowlevel.checkpoint()
        if artifact in self._pins or artifact in self.kept:
            return False
        return self._blobs.pop(artifact, None) is not None

    def payload(self, artifact: ArtifactId) -> bytes:
        """All bytes of a complete artifact, for scripted work in place of tensors.

        Raises:
            StoreError: it is not here, not complete, or damaged.
        """
        if self._look(artifact) is None or not self.has(artifact):
            raise StoreError(f"artifact {short(artifact)} is not complete: fetch it first")
        chunks = self._blobs[artifact].chunks
        return b"".join(chunks[index] for index in range(len(chunks)))

    def crash(self, dice: Random, *, power: bool = False) -> None:
        """What a crash does: pins are gone, and the dice keep or lose each incomplete chunk. power: of the machine."""
        self._pins.clear()
        for artifact, blob in self._blobs.items():
            blob.sound = False
            if power and (not blob.complete or artifact in self._unsynced):
                blob.tear(dice)
            elif not blob.complete:
                blob.chunks = {n: data for n, data in blob.chunks.items() if dice.random() < 0.5}
        if power:
            self._unsynced.clear()

    def copy(self, disk: Disk) -> "MemoryBlobs":
        """As from a backup that was made now."""
        other = MemoryBlobs(disk, quota_bytes=self._quota_bytes)
        other._blobs = {
            artifact: _Blob(blob.manifest, dict(blob.chunks), sound=False)
            for artifact, blob in self._blobs.items()
        }
        return other

    def _begun(self, artifact: ArtifactId) -> _Blob:
        blob = self._blobs.get(artifact)
        if blob is None:
            raise LocalError(f"artifact {short(artifact)} was not begun")
        return blob

    def _make_room(self, manifest: Manifest) -> None:
        used_bytes = sum(blob.manifest.size_bytes for blob in self._blobs.values())
        pinned = self._pins.keys() | self.kept
        free = [artifact for artifact in self._blobs if artifact not in pinned]
        evicted: list[ArtifactId] = []
        for artifact in free:
            if used_bytes + manifest.size_bytes <= self._quota_bytes:
                break
            used_bytes -= self._blobs[artifact].manifest.size_bytes
            evicted.append(artifact)
        if used_bytes + manifest.size_bytes > self._quota_bytes:
            raise NoRoomError(
                f"{manifest.size_bytes} bytes exceed the quota of {self._quota_bytes}: raise it"
            )
        for artifact in evicted:
            del self._blobs[artifact]
