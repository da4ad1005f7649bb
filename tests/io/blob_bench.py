"""A blob store under test, and what it reported."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import TypeVar, TypeVarTuple

import trio
import trio.testing

from p2pd.config.node import StoreSettings
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, manifest_of
from p2pd.core.ids import ArtifactId
from p2pd.io.blobs import FileBlobStore

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
SCHEMA = bytes(32)
GENEROUS = StoreSettings(quota_bytes=0, reserve_bytes=0)


def content(seed: int, size_bytes: int = 2 * CHUNK_BYTES + 77) -> bytes:
    return Random(seed).randbytes(size_bytes)


def described(data: bytes) -> Manifest:
    return manifest_of(ArtifactKind.HEAD, SCHEMA, data)


def chunk(data: bytes, index: int) -> bytes:
    return data[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]


class Bench:
    """A store, and what it reported."""

    def __init__(
        self, directory: Path, settings: StoreSettings = GENEROUS, free_bytes: int = 10**15
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.free_bytes = free_bytes
        self.damage: list[tuple[ArtifactId, str]] = []
        self.room: list[str] = []
        """Why there was none; an empty one where there was again."""
        self.open()

    def open(self) -> None:
        """As a restart does."""
        self.store = FileBlobStore(
            self.directory,
            self.settings,
            on_damage=lambda artifact, why: self.damage.append((artifact, why)),
            on_room=lambda error: self.room.append("" if error is None else str(error)),
            disk_free=lambda _: self.free_bytes,
        )

    def put(self, data: bytes) -> ArtifactId:
        return run(self.store.put, ArtifactKind.HEAD, SCHEMA, data)

    def begin(self, data: bytes) -> ArtifactId:
        return run(self.store.begin, described(data))

    def write(self, artifact: ArtifactId, data: bytes, *indexes: int) -> None:
        for index in indexes:
            run(self.store.write, artifact, index, chunk(data, index))

    def read(self, artifact: ArtifactId, index: int) -> bytes | None:
        return run(self.store.read, artifact, index)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


def run(action: Callable[[*Arguments], Awaitable[T]], *arguments: *Arguments) -> T:
    async def main() -> T:
        with trio.fail_after(20):
            return await action(*arguments)

    return trio.run(main)
