from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.errors import StoreError
from p2pd.io.shelved import shelved
from p2pd.ports import BlobStore
from p2pd.sim.store import MemoryBlobs
from tests.io.shard_sets import write_numbers
from tests.ports.blob_contract import CONTRACT


@pytest.mark.parametrize("clause", CONTRACT)
def test_it_is_a_blob_store(tmp_path: Path, clause: Callable[[BlobStore], Awaitable[None]]) -> None:
    write_numbers(tmp_path / "set")
    trio.run(clause, shelved(MemoryBlobs(), tmp_path / "set"))


def test_a_store_without_a_directory_is_itself() -> None:
    store = MemoryBlobs()
    assert shelved(store, None) is store


def test_i08_what_lies_there_is_had_without_being_copied_and_damage_counts_as_not_there(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        shards = write_numbers(tmp_path / "set")
        store = MemoryBlobs()
        blobs = shelved(store, tmp_path / "set")
        manifest = shards.splits[0].manifest(1)
        artifact, path = manifest.id, tmp_path / "set" / "train-000001.shard"
        data = path.read_bytes()
        assert blobs.has(artifact)
        assert await blobs.check(artifact)
        assert await blobs.read(artifact, 0) == data
        assert (blobs.manifest(artifact), blobs.missing(artifact)) == (manifest, ())
        assert blobs.held(ArtifactKind.SHARD) == ()
        path.write_bytes(data[:-1] + b"x")
        with pytest.raises(StoreError, match="not the bytes"):
            await blobs.read(artifact, 0)
        assert not await blobs.check(artifact)
        assert not blobs.has(artifact)
        await blobs.begin(manifest)
        await blobs.write(artifact, 0, data)
        assert await blobs.check(artifact)
        assert await blobs.read(artifact, 0) == data
        assert blobs.held(ArtifactKind.SHARD) == (manifest,)

    trio.run(main)


def test_a_directory_without_a_data_set_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"set.cbor: there is no such file"):
        shelved(MemoryBlobs(), tmp_path)
