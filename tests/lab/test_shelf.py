from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
import trio

from p2pd.core.artifact import ArtifactKind, Manifest, manifest_of
from p2pd.errors import LocalError, StoreError
from p2pd.lab.shelf import Shelf
from p2pd.sim.disk import Disk
from p2pd.sim.store import MemoryBlobs

SCHEMA = bytes(32)


def of(data: bytes) -> Manifest:
    return manifest_of(ArtifactKind.HEAD, SCHEMA, data)


def written(shelf: Shelf, data: bytes) -> Path:
    path = shelf.fresh()
    path.write_bytes(data)
    return path


def contents(paths: Iterable[Path]) -> list[bytes]:
    return sorted(path.read_bytes() for path in paths)


def files(directory: Path) -> list[bytes]:
    return contents(directory.iterdir())


def test_a_node_gets_the_files_of_its_own_store_alone(tmp_path: Path) -> None:
    async def main() -> None:
        shelf, mine, other = Shelf(tmp_path), MemoryBlobs(), MemoryBlobs(Disk(Random(1)))
        artifact = await shelf.adopt(mine, written(shelf, b"head"), of(b"head"))
        assert mine.payload(artifact) == b"head"
        assert (await shelf.path(mine, artifact)).read_bytes() == b"head"
        with pytest.raises(StoreError, match="fetch it first"):
            await shelf.path(other, artifact)

    trio.run(main)


def test_the_oldest_file_goes_and_comes_back_from_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        shelf, blobs = Shelf(tmp_path, files_most=2), MemoryBlobs()
        first, second = [
            await shelf.adopt(blobs, written(shelf, data), of(data)) for data in (b"1", b"2")
        ]
        await shelf.path(blobs, first)
        third = await shelf.adopt(blobs, written(shelf, b"3"), of(b"3"))
        assert files(tmp_path) == [b"1", b"3"]
        paths = await shelf.paths(blobs, (second, third))
        assert contents(paths.values()) == [b"2", b"3"]

    trio.run(main)


def test_a_file_is_what_its_manifest_says(tmp_path: Path) -> None:
    async def main() -> None:
        shelf = Shelf(tmp_path)
        with pytest.raises(LocalError, match="is not what its manifest says"):
            await shelf.adopt(MemoryBlobs(), written(shelf, b"head"), of(b"another"))

    trio.run(main)
