"""A store beside a directory of shard files: what lies there is had and served without being copied. Bytes.

What is looked at for the first time, and whenever a file has changed since, is hashed.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId
from p2pd.errors import StoreError
from p2pd.io.shard_directory import ShardDirectory, open_directory
from p2pd.ports import BlobStore

log = logging.getLogger("p2pd.data")

THREADS = 2

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class ShelvedBlobs:
    """Implements the port BlobStore."""

    def __init__(self, store: BlobStore, shelf: ShardDirectory) -> None:
        self._store = store
        self._shelf = shelf
        self._sound: dict[ArtifactId, tuple[int, int]] = {}
        """Size and time of the last change of a file when it was hashed last."""
        self._lying = {artifact for artifact, (path, _) in shelf.files.items() if path.exists()}
        """Less those that turned out to be something else, or are gone."""
        self._threads = trio.CapacityLimiter(THREADS)
        self.held = store.held
        self.touch = store.touch
        self.drop = store.drop
        self.put = store.put
        self.write = store.write
        self.pin = store.pin
        self.unpin = store.unpin
        self.keep = store.keep

    def _is_shelved(self, artifact: ArtifactId) -> bool:
        return artifact in self._lying and not self._store.has(artifact)

    def has(self, artifact: ArtifactId) -> bool:
        return self._store.has(artifact) or self._is_shelved(artifact)

    async def check(self, artifact: ArtifactId) -> bool:
        if not self._is_shelved(artifact):
            return await self._store.check(artifact)
        try:
            await self._blocking(self._check, artifact)
        except StoreError as error:
            self._lying.discard(artifact)
            log.warning("%s", error)
            return False
        return True

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        if self._is_shelved(artifact):
            return self._shelf.files[artifact][1]
        return self._store.manifest(artifact)

    async def put_fetched(
        self, artifact: ArtifactId, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes
    ) -> bool:
        return await self._store.put_fetched(artifact, kind, schema, data, owner)

    async def begin(self, manifest: Manifest) -> ArtifactId:
        return await self._store.begin(manifest)

    def missing(self, artifact: ArtifactId) -> tuple[int, ...]:
        return () if self._is_shelved(artifact) else self._store.missing(artifact)

    async def read(self, artifact: ArtifactId, index: int) -> bytes | None:
        if self._is_shelved(artifact):
            return await self._blocking(self._shelf.read, artifact, index)
        return await self._store.read(artifact, index)

    def _check(self, artifact: ArtifactId) -> None:
        status = self._shelf.files[artifact][0].stat()
        stamp = status.st_size, status.st_mtime_ns
        if self._sound.get(artifact) != stamp:
            self._shelf.check(artifact)
            self._sound[artifact] = stamp

    async def _blocking(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        return await trio.to_thread.run_sync(function, *arguments, limiter=self._threads)


def shelved(store: BlobStore, directory: Path | None) -> BlobStore:
    """The store itself where there is no directory. Raises StoreError: it holds no data set."""
    return store if directory is None else ShelvedBlobs(store, open_directory(directory))
