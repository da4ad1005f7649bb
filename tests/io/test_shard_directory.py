from pathlib import Path

import pytest

from p2pd.core.artifact import CHUNK_BYTES
from p2pd.core.ids import ArtifactId
from p2pd.core.samples import dump_sample
from p2pd.errors import StoreError
from p2pd.io.shard_directory import open_directory
from p2pd.io.shard_writer import Source, write_set
from tests.io.shard_sets import write_numbers


def test_a_set_is_served_chunk_by_chunk(tmp_path: Path) -> None:
    large = Source("large", [dump_sample(bytes(CHUNK_BYTES))])
    shards = write_set(tmp_path / "set", {"train": large}, 1)
    directory = open_directory(tmp_path / "set")
    (artifact,) = (split.manifest(number).id for split, number in shards.files())
    whole = (tmp_path / "set" / "train-000000.shard").read_bytes()
    assert directory.read(artifact, 0) == whole[:CHUNK_BYTES]
    assert directory.read(artifact, 1) == whole[CHUNK_BYTES:]
    assert directory.read(artifact, 2) is None
    assert directory.read(ArtifactId(bytes(32)), 0) is None
    assert directory.read(shards.id, 0) == shards.encoded


def test_other_bytes_than_the_set_names_are_never_given(tmp_path: Path) -> None:
    shards = write_numbers(tmp_path / "set")
    path = tmp_path / "set" / "train-000001.shard"
    artifact = shards.splits[0].manifest(1).id
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"x")
    directory = open_directory(tmp_path / "set")
    with pytest.raises(StoreError, match=r"train-000001.shard: not the bytes"):
        directory.read(artifact, 0)
    path.write_bytes(data[:-1])
    with pytest.raises(StoreError, match="not the size"):
        directory.check(artifact)
    path.unlink()
    assert directory.read(artifact, 0) is None
    with pytest.raises(StoreError, match="no such file"):
        directory.check(artifact)


def test_what_is_no_set_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"set.cbor: there is no such file"):
        open_directory(tmp_path)
    (tmp_path / "set.cbor").write_bytes(b"\x80")
    with pytest.raises(StoreError, match="not the manifest of a data set"):
        open_directory(tmp_path)
