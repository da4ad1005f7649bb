"""Artifacts from node to node over real sockets, from one disk to another, verified. MB are 10**6 bytes.

Every node is a process with the daemon's own parts (bench/transfer_node.py). The floors are aioquic's own
asyncio server, with datagrams of the same size, and Python's TLS over TCP: both from memory to memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import trio

from p2pd.bench.children import Child
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.bench.transfer_node import SCHEMA, ChunkTimes
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, chunk_count
from p2pd.core.ids import ArtifactId

NODE = "p2pd.bench.transfer_node"
AIOQUIC = "p2pd.bench.floor_aioquic"
TLS = "p2pd.bench.floor_tls"
MB = 10**6
SIZE_MB = 256 * CHUNK_BYTES / MB
REPEATS = 2
INTERNET_BYTES, LOOPBACK_BYTES = 1200, 16_000
"""Datagrams that pass every path, and the largest."""
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


def run(options: Options) -> Sequence[Row]:
    rows: list[Row] = []
    for size_mb in options.sizes_mb or (SIZE_MB,):
        with TemporaryDirectory(prefix="p2pd-bench-") as directory:
            options.say(f"writing {size_mb:.0f} MB to {directory}")
            place = prepare(Path(directory), int(size_mb * MB))
            rows += throughput(place, options)
    return rows


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


def throughput(place: Place, options: Options) -> Sequence[Row]:
    """Ours and the floor by turns, so that both meet the same disturbances; the best of each."""
    ours: dict[int, list[float]] = {INTERNET_BYTES: [], LOOPBACK_BYTES: []}
    theirs: dict[int, list[float]] = {INTERNET_BYTES: [], LOOPBACK_BYTES: []}
    tls: list[float] = []
    for turn in range(options.repeats or REPEATS):
        for size, speeds in ours.items():
            speeds.append(_between_nodes(place, size))
            theirs[size].append(_floor(AIOQUIC, place, str(size)))
            options.say(
                f"turn {turn + 1}, {size}-byte datagrams: {speeds[-1]:.1f} MB/s,"
                f" aioquic's own {theirs[size][-1]:.1f} MB/s"
            )
        tls.append(_floor(TLS, place))
    name = f"{place.size_bytes / MB:.0f} MB, disk to verified disk"
    own = "aioquic's asyncio server, memory to memory"
    return [
        *(
            Row(f"{name}, {size}-byte datagrams", max(ours[size]), "MB/s", max(theirs[size]), own)
            for size in ours
        ),
        Row(
            f"{name}, {INTERNET_BYTES}-byte datagrams, beside TCP",
            max(ours[INTERNET_BYTES]),
            "MB/s",
            max(tls),
            "Python's TLS over TCP, memory to memory",
        ),
    ]


def _between_nodes(place: Place, datagram_bytes: int) -> float:
    size = str(datagram_bytes)
    with (
        Child(NODE, "serve", place.origin, size) as provider,
        Child(
            NODE, "fetch", place.fresh("fetcher"), size, place.artifact.hex(), _node(provider)
        ) as fetcher,
    ):
        return place.size_bytes / MB / float(_result(fetcher)["seconds"])


def _floor(module: str, place: Place, *arguments: str) -> float:
    """MB/s of a child that serves and one that fetches, of the same number of bytes."""
    arguments = (*arguments, str(place.size_bytes))
    with Child(module, "serve", *arguments) as server:
        port = str(server.hear(START_S)["port"])
        with Child(module, "fetch", *arguments, port) as client:
            result = client.hear(LIMIT_S)
            return float(result["received_bytes"]) / MB / float(result["seconds"])


def _node(provider: Child) -> str:
    """PEER@ADDRESS."""
    return str(provider.hear(START_S)["node"])


def _result(fetcher: Child) -> dict[str, Any]:
    while "seconds" not in (said := fetcher.hear(LIMIT_S)):
        pass
    return said
