"""The artifacts of this node, on disk: quota, pins, collection, damage.

File work runs in threads, a few at a time. What decides about space is done by one task at a time.
"""

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from p2pd.config.node import StoreSettings
from p2pd.core.artifact import ArtifactKind, Manifest, manifest_of
from p2pd.core.ids import ArtifactId, short
from p2pd.errors import LocalError, NoRoomError, RemoteError, StoreError
from p2pd.io.blob_entries import Entry, Victim, collectable, first_enough, is_lasting
from p2pd.io.blob_files import BlobFiles, Stamp, size_of
from p2pd.io.chunk_cache import ChunkCache
from p2pd.io.durable import TEMPORARY, free_bytes

KEPT = "kept"
"""Owner of the pins that last over restarts."""
THREADS = 4
"""At most this many chunks are held for reading and writing at a time."""

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class FileBlobStore:
    """Implements the ports BlobStore and ArtifactFiles. Construct it before the loop serves.

    What this node makes lies on stable storage before it has a name, updates aside: those count for one window.
    What it fetches can be fetched again: it reaches the disk when the kernel likes, unless it is kept for good.

    An artifact without a pin may be collected when room is needed: complete ones oldest first, then
    those that are incomplete and that nobody fetches any more. Whoever fetches pins, begins and
    writes, and unpins if it gives up.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings,
        *,
        on_damage: Callable[[ArtifactId, str], None],
        on_room: Callable[[NoRoomError | None], None] = lambda _: None,
        disk_free: Callable[[Path], int] = free_bytes,
    ) -> None:
        """on_room hears of each refusal for want of room, and by None that as much found room again."""
        self._directory = directory
        self._settings = settings
        self._on_damage = on_damage
        self._on_room = on_room
        self._disk_free = disk_free
        self._files = BlobFiles(directory)
        self._room = trio.Lock()
        self._threads = trio.CapacityLimiter(THREADS)
        self._names = itertools.count(1)
        self._read = ChunkCache()
        self._refused_bytes = 0
        """What was refused last; 0 once as much was granted."""
        self._outputs: dict[Path, int] = {}
        """Files that subprocesses are writing, with the size they may come to."""
        survey = self._files.survey()
        self._pins: dict[ArtifactId, set[str]] = {artifact: {KEPT} for artifact in survey.kept}
        self._entries = {  # oldest first
            item.artifact: Entry(item.artifact, item.manifest, complete=item.complete)
            for item in survey.found
        }
        self._damaged = dict(self._files.damaged_bytes())
        for artifact in survey.damaged:
            on_damage(artifact, self._moved(artifact, "size or manifest does not match"))

    def has(self, artifact: ArtifactId) -> bool:
        entry = self._entries.get(artifact)
        return entry is not None and entry.complete

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        entry = self._entries.get(artifact)
        return None if entry is None else entry.manifest

    def missing(self, artifact: ArtifactId) -> tuple[int, ...]:
        entry = self._entries.get(artifact)
        if entry is None:
            raise LocalError(f"artifact {short(artifact)} was not begun")
        if entry.complete:
            return ()
        indexes = range(len(entry.manifest.chunks))
        return tuple(indexes if entry.missing is None else sorted(entry.missing))

    def pin(self, artifact: ArtifactId, owner: str) -> None:
        self._pins.setdefault(artifact, set()).add(owner)

    def unpin(self, artifact: ArtifactId, owner: str) -> None:
        owners = self._pins.get(artifact, set())
        owners.discard(owner)
        if not owners:
            self._pins.pop(artifact, None)
            entry = self._entries.get(artifact)
            if entry is not None:
                entry.wanted = False

    def held(self, kind: ArtifactKind) -> tuple[Manifest, ...]:
        entries = self._entries.values()
        return tuple(entry.manifest for entry in entries if entry.manifest.kind is kind)

    def touch(self, artifact: ArtifactId) -> None:
        if self.has(artifact):
            self._entries[artifact] = self._entries.pop(artifact)  # the youngest

    async def drop(self, artifact: ArtifactId) -> bool:
        async with self._room:
            entry = self._entries.get(artifact)
            if entry is None or artifact in self._pins or entry.turn.locked():
                return False
            await self._remove((Victim(artifact, entry.manifest.size_bytes, damaged=False),))
        return True

    async def keep(self, artifact: ArtifactId) -> None:
        if KEPT not in self._pins.get(artifact, ()):
            self.pin(artifact, KEPT)
            if self.has(artifact):
                await self.settle(artifact)
            await self._blocking(self._files.keep, artifact)

    async def settle(self, artifact: ArtifactId) -> None:
        """Puts a complete artifact on stable storage."""
        self.path(artifact)
        await self._blocking(self._files.sync, artifact)

    async def put(
        self, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes = b""
    ) -> ArtifactId:
        manifest = await self._blocking(manifest_of, kind, schema, data, owner)
        await self._put(manifest, data, lasting=is_lasting(manifest))
        return manifest.id

    async def put_fetched(
        self, artifact: ArtifactId, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes
    ) -> bool:
        manifest = await self._blocking(manifest_of, kind, schema, data, owner)
        if manifest.id != artifact:
            return False
        await self._put(manifest, data, lasting=KEPT in self._pins.get(artifact, ()))
        return True

    async def _put(self, manifest: Manifest, data: bytes, *, lasting: bool) -> None:
        artifact = manifest.id
        async with self._room:
            entry = self._entries.get(artifact)
            if entry is None:
                await self._make_room(_named(artifact), manifest.size_bytes)
                entry = Entry(artifact, manifest)
            with trio.CancelScope(shield=True):  # short: a file written
                async with entry.turn:
                    if not entry.complete:
                        put = self._files.put
                        stamp = await self._blocking(put, artifact, manifest, data, lasting)
                        self._completed(entry, stamp)

    async def begin(self, manifest: Manifest) -> ArtifactId:
        artifact = manifest.id
        async with self._room:
            entry = self._entries.get(artifact)
            if entry is None:
                await self._make_room(_named(artifact), manifest.size_bytes)
                await self._blocking(self._files.begin, artifact, manifest)
                entry = Entry(artifact, manifest, missing=set(range(len(manifest.chunks))))
                self._entries[artifact] = entry
            entry.wanted = True
        async with entry.turn:
            if not entry.complete and entry.missing is None:
                entry.missing = await self._blocking(self._files.missing, artifact, manifest)
            await self._finish_if_whole(entry)
        return artifact

    async def write(self, artifact: ArtifactId, index: int, data: bytes) -> None:
        entry = self._entries.get(artifact)
        if entry is None:
            raise self._not_begun(artifact)
        if not 0 <= index < len(entry.manifest.chunks):
            raise RemoteError(f"artifact {short(artifact)} has no chunk {index}")
        async with entry.turn:
            if entry.complete:
                return
            if self._entries.get(artifact) is not entry or entry.missing is None:
                raise self._not_begun(artifact)
            if index in entry.missing:
                await self._write_chunk(entry, index, data)
                entry.missing.discard(index)
            await self._finish_if_whole(entry)

    async def read(self, artifact: ArtifactId, index: int) -> bytes | None:
        if artifact not in self._entries:
            return None
        return await self._read.get((artifact, index), partial(self._read_file, artifact, index))

    async def _read_file(self, artifact: ArtifactId, index: int) -> bytes | None:
        entry = self._entries.get(artifact)
        if entry is None or not 0 <= index < len(entry.manifest.chunks):
            return None
        while entry.holds(index):
            complete = entry.complete
            path = self._files.payload(artifact) if complete else self._files.part(artifact)
            data = await self._blocking(self._files.read_chunk, path, entry.manifest, index)
            if data is not None:
                return data
            async with entry.turn:
                pass  # a rename that was under way while we read is over now, and known
            if self._entries.get(artifact) is not entry:
                break  # collected, or found damaged, while we read
            if complete == entry.complete:  # else it was renamed while we read: look again
                await self._damage(entry, index)
                break
        return None

    async def check(self, artifact: ArtifactId) -> bool:
        try:
            await self.sound(artifact)
        except StoreError:
            if self.has(artifact):
                raise
            return False
        return True

    async def sound(self, artifact: ArtifactId) -> Path:
        return (await self.all_sound((artifact,)))[0]

    async def all_sound(self, artifacts: Sequence[ArtifactId]) -> list[Path]:
        paths = [self.path(artifact) for artifact in artifacts]
        entries = [self._entries[artifact] for artifact in artifacts]
        stamps = await self._blocking(self._files.stamps, paths)
        for entry, stamp in zip(entries, stamps, strict=True):
            if stamp is None or stamp != entry.stamp:
                await self.verify(entry.artifact)
                entry.stamp = stamp
        return paths

    async def verify(self, artifact: ArtifactId) -> None:
        """Hashes a complete artifact again.

        Raises:
            StoreError: it is not here, or damaged; it is then moved aside.
        """
        path = self.path(artifact)
        for index in range(len(self._entries[artifact].manifest.chunks)):
            if await self._read_file(artifact, index) is None:
                raise StoreError(f"{path}: chunk {index} is damaged or gone: fetch it again")

    def path(self, artifact: ArtifactId) -> Path:
        if not self.has(artifact):
            raise StoreError(f"artifact {artifact.hex()} is not in {self._directory}")
        return self._files.payload(artifact)

    @asynccontextmanager
    async def output(self, suffix: str, size_bytes: int) -> AsyncIterator[Path]:
        path = self._directory / f"{TEMPORARY}file-{next(self._names)}{suffix}"
        async with self._room:
            await self._make_room(path.name, size_bytes)
            self._outputs[path] = size_bytes
        try:
            yield path
        finally:
            self._outputs.pop(path, None)
            path.unlink(missing_ok=True)

    async def adopt(self, path: Path, manifest: Manifest) -> ArtifactId:
        if path.parent != self._directory:
            raise LocalError(f"{path} is not in {self._directory}: a rename would not be atomic")
        artifact, size_bytes = manifest.id, manifest.size_bytes
        await self._blocking(self._files.check, path, size_bytes, is_lasting(manifest))
        async with self._room:
            self._outputs.pop(path, None)
            if artifact not in self._entries:
                await self._make_room(_named(artifact), size_bytes, on_disk_bytes=size_bytes)
            await self._take(artifact, manifest, path)
        return artifact

    async def _take(self, artifact: ArtifactId, manifest: Manifest, path: Path) -> None:
        entry = self._entries.get(artifact) or Entry(artifact, manifest)
        with trio.CancelScope(shield=True):  # short: a rename
            async with entry.turn:
                take, lasting = self._files.take, is_lasting(manifest)
                stamp = await self._blocking(take, artifact, manifest, path, lasting)
                self._completed(entry, stamp)

    async def _write_chunk(self, entry: Entry, index: int, data: bytes) -> None:
        free, reserve = self._disk_free(self._directory), self._settings.reserve_bytes
        if free - len(data) < reserve:
            raise self._no_room(
                entry.manifest.size_bytes,
                f"the disk has {free} bytes free and store.reserve_bytes keeps {reserve}: "
                "free some space",
            )
        write = self._files.write_chunk
        await self._blocking(write, entry.artifact, entry.manifest, index, data)

    async def _finish_if_whole(self, entry: Entry) -> None:
        if entry.complete or entry.missing != set():
            return
        with trio.CancelScope(shield=True):  # else a whole artifact could stay unfinished
            try:
                kept = KEPT in self._pins.get(entry.artifact, ())
                stamp = await self._blocking(self._files.finish, entry.artifact, kept)
            except StoreError:
                # After a failed sync nobody knows what reached the disk.
                entry.missing = set(range(len(entry.manifest.chunks)))
                raise
            self._completed(entry, stamp)

    def _completed(self, entry: Entry, stamp: Stamp) -> None:
        entry.complete, entry.missing, entry.stamp = True, set(), stamp
        self._entries.pop(entry.artifact, None)
        self._entries[entry.artifact] = entry  # the youngest
        self._found_room(entry.manifest.size_bytes)

    def _not_begun(self, artifact: ArtifactId) -> StoreError:
        return StoreError(f"artifact {short(artifact)} is not being fetched: begin it first")

    async def _damage(self, entry: Entry, index: int) -> None:
        artifact = entry.artifact
        if not entry.complete:
            if entry.missing is not None:
                entry.missing.add(index)
            self._on_damage(artifact, f"{self._files.part(artifact)}: chunk {index} is damaged")
            return
        del self._entries[artifact]
        with trio.CancelScope(shield=True):  # short: a rename
            async with self._room:
                await self._blocking(self._files.set_aside, artifact)
                self._damaged[artifact] = entry.manifest.size_bytes
        self._on_damage(artifact, self._moved(artifact, f"chunk {index} does not match"))

    def _moved(self, artifact: ArtifactId, why: str) -> str:
        return f"{self._files.payload(artifact)}: {why}; moved to {self._files.damaged(artifact)}"

    async def _make_room(self, what: str, size_bytes: int, *, on_disk_bytes: int = 0) -> None:
        """Collects what it must, and nothing if that is not enough."""
        quota, disk = self._quota_lack(size_bytes), self._disk_lack(size_bytes - on_disk_bytes)
        free = collectable(self._entries.values(), self._pins, self._damaged)
        victims, lacking = first_enough(free, max(quota, disk))
        if lacking > 0:
            raise self._no_room(
                size_bytes,
                f"no room for {what} of {size_bytes} bytes, {lacking} bytes lacking: "
                + ("raise store.quota_bytes" if quota >= disk else "free some disk space"),
            )
        self._found_room(size_bytes)
        await self._remove(victims)

    async def _remove(self, victims: Sequence[Victim]) -> None:
        for victim in victims:  # all at once: nobody may pin or read one while its files go
            owner: dict[ArtifactId, int] | dict[ArtifactId, Entry]
            owner = self._damaged if victim.damaged else self._entries
            del owner[victim.artifact]
        with trio.CancelScope(shield=True):  # short: a few names removed
            for victim in victims:
                remove = self._files.remove_damaged if victim.damaged else self._files.remove
                await self._blocking(remove, victim.artifact)

    def _no_room(self, size_bytes: int, why: str) -> NoRoomError:
        error = NoRoomError(f"{self._directory}: {why}")
        self._refused_bytes = size_bytes
        self._on_room(error)
        return error

    def _found_room(self, size_bytes: int) -> None:
        if size_bytes >= self._refused_bytes > 0:
            self._refused_bytes = 0
            self._on_room(None)

    def _quota_lack(self, size_bytes: int) -> int:
        if not self._settings.quota_bytes:
            return 0
        held = sum(entry.manifest.size_bytes for entry in self._entries.values())
        held += sum(self._damaged.values()) + sum(self._outputs.values())
        return held + size_bytes - self._settings.quota_bytes

    def _disk_lack(self, size_bytes: int) -> int:
        promised = sum(one.missing_bytes for one in self._entries.values() if not one.complete)
        promised += sum(size - size_of(path) for path, size in self._outputs.items())
        free = self._disk_free(self._directory)
        return promised + size_bytes + self._settings.reserve_bytes - free

    async def _blocking(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        try:
            return await trio.to_thread.run_sync(function, *arguments, limiter=self._threads)
        except NoRoomError as error:  # somebody else was faster than our own look at the disk
            self._refused_bytes = max(1, self._refused_bytes)
            self._on_room(error)
            raise


def _named(artifact: ArtifactId) -> str:
    return f"artifact {short(artifact)}"
