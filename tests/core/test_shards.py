from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core import shards
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, manifest_of
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId
from p2pd.core.revision import DataSpec
from p2pd.core.shards import (
    HEADER_BYTES,
    SHARD_FORMAT,
    ShardSet,
    Split,
    entry_place,
    index_bytes,
    load_set,
    pack_shard,
    span_of,
    unpack_shard,
)
from p2pd.errors import RemoteError

RECORDS = [b"one", b"t", b"three"]
FILES = (pack_shard(RECORDS), pack_shard([bytes(CHUNK_BYTES)] * 3), pack_shard([b"last"]))


def hashes(data: bytes) -> bytes:
    return b"".join(manifest_of(ArtifactKind.SHARD, SHARD_FORMAT, data).chunks)


SPLIT = Split("train", 7, 3, tuple(map(len, FILES)), b"".join(map(hashes, FILES)))
SET = ShardSet((SPLIT,), ("cat", "dog"))


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=9))
def test_each_sample_of_a_shard_file_is_found_by_its_number_alone(records: list[bytes]) -> None:
    data = pack_shard(records)
    for number, record in enumerate(records):
        place = entry_place(number)
        start, length = span_of(data[place : place + 16], len(records), len(data))
        assert data[start : start + length] == record
    assert unpack_shard(data) == records


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"x" + data[1:],
        lambda data: data[:8] + bytes(8) + data[16:],
        lambda data: data[:8] + (2**60).to_bytes(8, "little") + data[16:],
        lambda data: data[:HEADER_BYTES] + bytes(8) + data[HEADER_BYTES + 8 :],
        lambda data: data[:24] + (10**9).to_bytes(8, "little") + data[32:],
        lambda data: b"",
    ],
)
def test_i08_a_damaged_shard_file_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(RemoteError):
        unpack_shard(damage(FILES[0]))


def test_i08_a_sample_that_claims_to_be_huge_takes_no_memory() -> None:
    entry = index_bytes(1).to_bytes(8, "little") + (2**29).to_bytes(8, "little")
    with pytest.raises(RemoteError, match="are the most"):
        span_of(entry, 1, 2**29)


def test_a_file_that_grows_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES_MOST", 40)
    with pytest.raises(ValueError, match="a shard file 40 at most"):
        pack_shard([b"x"] * 3)


def test_the_files_of_a_set_are_artifacts_whose_manifests_it_gives_itself() -> None:
    for number, data in enumerate(FILES):
        assert SPLIT.manifest(number) == manifest_of(ArtifactKind.SHARD, SHARD_FORMAT, data)
    assert [SPLIT.file_name(number) for _, number in SET.files()] == [
        "train-000000.shard",
        "train-000001.shard",
        "train-000002.shard",
    ]


def test_a_set_is_named_by_all_that_it_says() -> None:
    assert load_set(SET.encoded, SET.id) == SET
    other = replace(SET, classes=("cat", "cow"))
    assert other.id != SET.id
    with pytest.raises(RemoteError, match="it is the set"):
        load_set(SET.encoded, other.id)
    assert SET.split("train") == SPLIT
    assert SET.split("valid") is None


def test_samples_are_found_in_the_files_that_hold_them() -> None:
    assert SPLIT.files_of([range(3)]) == (0,)
    assert SPLIT.files_of([range(6, 7), range(2, 4)]) == (0, 1, 2)
    assert SPLIT.files_of([range(5, 5)]) == ()
    for span in (range(6, 8), range(-1, 1)):
        with pytest.raises(ValueError, match="none of number"):
            SPLIT.files_of([span])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "../x"}, "a name has"),
        ({"samples": 0}, "out of range"),
        ({"shard_samples": 2**40}, "out of range"),
        ({"samples": 2**40}, "do not hold"),
        ({"sizes": (*SPLIT.sizes[:2], 2**40)}, "a file of 1099511627776 bytes"),
        ({"sizes": (*SPLIT.sizes[:2], 10)}, "a file of"),
        ({"sizes": (10, *SPLIT.sizes[1:])}, "a file of 10 bytes"),
        ({"chunks": SPLIT.chunks[1:]}, "one hash for each chunk"),
    ],
)
def test_i08_a_split_that_cannot_be_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace(SPLIT, **changed)
    fields = [changed.get(name, getattr(SPLIT, name)) for name in Split.__dataclass_fields__]
    with pytest.raises(RemoteError):
        load_set(encode([[fields], []]))


def test_splits_are_sorted_and_classes_are_few_and_short() -> None:
    valid = replace(SPLIT, name="valid")
    for splits in ((), (valid, SPLIT), (SPLIT, SPLIT)):
        with pytest.raises(ValueError, match="splits"):
            ShardSet(splits)
    for classes in (("x" * 256,), ("x",) * (2**16 + 1)):
        with pytest.raises(ValueError, match="classes"):
            ShardSet((SPLIT,), classes)


def test_a_revision_of_sharded_data_names_their_set() -> None:
    assert DataSpec("sharded", 7, 3, SET.id.hex()).shard_set == SET.id
    assert DataSpec("indexed", 7, 3, SET.id.hex()).shard_set is None
    for wrong in ("", "digits", SET.id.hex().upper(), sha256(b"").hexdigest()[:-1]):
        with pytest.raises(ValueError, match="id of their set"):
            DataSpec("sharded", 7, 3, wrong)
    assert ArtifactId(bytes(32)) != SET.id
