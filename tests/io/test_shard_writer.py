from collections.abc import Iterator
from pathlib import Path

import pytest

from p2pd.core.samples import load_sample
from p2pd.core.shards import load_set, unpack_shard
from p2pd.errors import NoRoomError, UsageError
from p2pd.io import shard_writer
from p2pd.io.shard_writer import Source, write_set
from tests.io.shard_sets import numbers, write_numbers


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_same_samples_give_the_same_bytes_and_the_same_id(tmp_path: Path) -> None:
    one, other = write_numbers(tmp_path / "one"), write_numbers(tmp_path / "other")
    assert one.id == other.id
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    assert write_numbers(tmp_path / "third", each=5).id != one.id
    assert write_numbers(tmp_path / "fourth", train=11).id != one.id


def test_a_set_holds_all_samples_in_order_in_files_of_so_many(tmp_path: Path) -> None:
    written = write_numbers(tmp_path / "set")
    files = contents(tmp_path / "set")
    assert load_set(files["set.cbor"]) == written
    train = [record for n in range(3) for record in unpack_shard(files[f"train-{n:06d}.shard"])]
    assert [load_sample(record) for record in train] == [(n, f"number {n}") for n in range(10)]
    assert [split.sizes for split in written.splits] == [
        tuple(len(files[f"train-{n:06d}.shard"]) for n in range(3)),
        (len(files["valid-000000.shard"]),),
    ]


def failing() -> Iterator[bytes]:
    yield from numbers(5).records
    raise UsageError("the fifth cannot be read")


def test_a_set_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the fifth"):
        write_set(tmp_path / "set", {"train": Source("failing", failing())}, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise NoRoomError(f"{path}: the disk is full: free some space")

    monkeypatch.setattr(shard_writer, "write_synced", full)
    with pytest.raises(NoRoomError, match="the disk is full"):
        write_numbers(tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


def test_samples_that_make_no_set_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no samples in it"):
        write_set(tmp_path / "set", {"train": Source("nothing", [])}, 2)
    two = {"train": Source("one", [b"x"], ("a",)), "valid": Source("two", [b"x"], ("b",))}
    with pytest.raises(UsageError, match="one and two have other classes"):
        write_set(tmp_path / "set", two, 2)


def test_files_and_manifests_that_grow_too_large_say_what_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_writer, "FILES_MOST", 2)
    with pytest.raises(UsageError, match="raise samples-per-shard"):
        write_numbers(tmp_path / "set")
    monkeypatch.setattr(shard_writer, "FILES_MOST", 3)
    monkeypatch.setattr(shard_writer, "SET_BYTES_MOST", 100)
    with pytest.raises(UsageError, match="make several sets"):
        write_numbers(tmp_path / "set")
    monkeypatch.setattr("p2pd.core.shards.SHARD_BYTES_MOST", 40)
    with pytest.raises(UsageError, match="lower samples-per-shard"):
        write_numbers(tmp_path / "set")
