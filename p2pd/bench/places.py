"""Where the nodes of a bench live, and the artifact that one of them holds. MB are 10**6 bytes."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import trio

from p2pd.bench.children import Child
from p2pd.bench.transfer_node import SCHEMA, ChunkTimes
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, chunk_count
from p2pd.core.ids import ArtifactId

NODE = "p2pd.bench.transfer_node"
MB = 10**6
START_S = 30.0
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Place:
    """One run's directory, and the artifact that lies at `origin` in it."""

    directory: Path
    artifact: ArtifactId
    size_bytes: int

    @property
    def origin(self) -> str:
        return str(self.directory / "origin")

    def fresh(self, name: str) -> str:
        """A node's directory that was not there before."""
        number = sum(1 for _ in self.directory.glob(f"{name}*"))
        return str(self.directory / f"{name}{number}")

    def copy(self) -> str:
        """The directory of one more node that holds the artifact."""
        other = self.directory / "copy"
        (other / "blobs").mkdir(parents=True)
        for path in Path(self.origin, "blobs").iterdir():
            (other / "blobs" / path.name).hardlink_to(path)
        return str(other)


def prepare(directory: Path, size_bytes: int) -> Place:
    dice = Random(0)
    blobs = directory / "origin" / "blobs"
    blobs.mkdir(parents=True)
    sizes = [min(CHUNK_BYTES, size_bytes - n * CHUNK_BYTES) for n in range(chunk_count(size_bytes))]
    chunks = [dice.randbytes(size) for size in sizes]
    hashes = tuple(sha256(chunk).digest() for chunk in chunks)
    manifest = Manifest(ArtifactKind.HEAD, SCHEMA, size_bytes, hashes)

    async def write() -> ArtifactId:
        store = ChunkTimes(blobs)
        await store.begin(manifest)
        for index, chunk in enumerate(chunks):
            await store.write(manifest.id, index, chunk)
        return manifest.id

    return Place(directory, trio.run(write), size_bytes)


def node_of(provider: Child) -> str:
    """PEER@ADDRESS, once it serves."""
    return str(provider.hear(START_S)["node"])


def result_of(fetcher: Child) -> dict[str, Any]:
    while "seconds" not in (said := fetcher.hear(LIMIT_S)):
        pass
    return said
