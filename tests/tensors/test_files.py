import json
import os
import resource
import struct
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, manifest_of
from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import LocalError, RemoteError, StoreError
from p2pd.tensors.crew import Crew, hired
from p2pd.tensors.files import (
    PIECES_MOST,
    WRITEBACK_CHUNKS,
    ArtifactWriter,
    TensorFile,
    write_artifact,
)
from p2pd.tensors.formats import FORMATS
from p2pd.tensors.layout import layout_of

SCHEMA = Schema(
    (
        TensorSpec("a", "F32", (2, 3), False),
        TensorSpec("b.mask", "BOOL", (3,), True),
        TensorSpec("c", "BF16", (2,), False),
        TensorSpec("n", "I64", (), True),
        TensorSpec("none", "F16", (0, 7), False),
    )
)
ARRAYS: dict[str, Any] = {
    "a": np.arange(6, dtype="<f4").reshape(2, 3) - 2,
    "b.mask": np.array([True, False, True]),
    "c": np.array([0x3F80, 0xBF80], "<u2"),
    "n": np.array(-7, "<i8"),
    "none": np.zeros((0, 7), "<f2"),
}
TORCH_TYPES = {
    "F32": torch.float32,
    "BOOL": torch.bool,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "F16": torch.float16,
}


def written(directory: Path) -> bytes:
    write_artifact(directory / "file", ArtifactKind.HEAD, SCHEMA, ARRAYS)
    return (directory / "file").read_bytes()


def load_with_torch(raw: bytes) -> dict[str, torch.Tensor]:
    """What any safetensors reader does."""
    (length,) = struct.unpack("<Q", raw[:8])
    loaded = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        start, end = entry["data_offsets"]
        data = bytearray(raw[8 + length + start : 8 + length + end])
        kind = TORCH_TYPES[entry["dtype"]]
        flat = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
        loaded[name] = flat.reshape(entry["shape"])
    return loaded


def test_a_file_loads_in_torch_with_a_plain_safetensors_reader(tmp_path: Path) -> None:
    loaded = load_with_torch(written(tmp_path))
    assert loaded["a"].tolist() == [[-2, -1, 0], [1, 2, 3]]
    assert loaded["b.mask"].tolist() == [True, False, True]
    assert loaded["c"].tolist() == [1.0, -1.0]
    assert loaded["n"].item() == -7
    assert loaded["none"].shape == (0, 7)


def test_a_file_loads_in_safetensors_itself(tmp_path: Path) -> None:
    loaded = safetensors.torch.load(written(tmp_path))
    assert loaded["a"].tolist() == [[-2, -1, 0], [1, 2, 3]]


def test_tensors_are_read_as_they_were_written(tmp_path: Path) -> None:
    written(tmp_path)
    file = TensorFile(tmp_path / "file")
    file.require(SCHEMA)
    for index, tensor in enumerate(SCHEMA.tensors):
        flat = ARRAYS[tensor.name].reshape(-1)
        assert file.stored(index).tobytes() == flat.tobytes()
        assert file.stored(index, slice(1, 3)).tobytes() == flat[1:3].tobytes()
    assert file.values(2, slice(None)).tolist() == [1.0, -1.0]


def test_what_was_read_outlives_the_file_object(tmp_path: Path) -> None:
    written(tmp_path)
    view = TensorFile(tmp_path / "file").stored(0)
    assert view.tolist() == [-2, -1, 0, 1, 2, 3]
    assert not view.flags.writeable


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_manifest_made_while_writing_is_that_of_the_bytes(tmp_path: Path, threads: int) -> None:
    count = CHUNK_BYTES // 4 * (WRITEBACK_CHUNKS + 2) + 5
    schema = Schema((TensorSpec("big", "F32", (count,), False),))
    values = np.arange(count).astype("<f4")
    with (
        hired(threads) as crew,
        ArtifactWriter(tmp_path / "big", ArtifactKind.UPDATE, schema, crew) as writer,
    ):
        for start in range(0, count, 100_001):
            writer.write(values[start : start + 100_001])
        manifest = writer.finish()
    raw = (tmp_path / "big").read_bytes()
    assert raw[len(layout_of(schema.tensors).header) :] == values.tobytes()
    assert manifest == manifest_of(ArtifactKind.UPDATE, schema.id, raw)
    assert len(manifest.chunks) == WRITEBACK_CHUNKS + 3


def test_a_chunk_may_come_in_more_pieces_than_the_system_takes_at_once(tmp_path: Path) -> None:
    count = 3 * PIECES_MOST
    schema = Schema((TensorSpec("x", "I32", (count,), False),))
    with ArtifactWriter(tmp_path / "x", ArtifactKind.HEAD, schema) as writer:
        for number in range(count):
            writer.write(np.array([number], "<i4"))
        writer.finish()
    assert TensorFile(tmp_path / "x").stored(0).tolist() == list(range(count))


def test_a_file_that_takes_a_little_at_a_time_gets_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(tmp_path)

    def little(descriptor: int, pieces: list[memoryview], offset: int) -> int:
        return os.pwrite(descriptor, b"".join(pieces)[:7], offset)

    monkeypatch.setattr(os, "pwritev", little)
    (tmp_path / "little").mkdir()
    assert written(tmp_path / "little") == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_that_can_grow_no_more_is_an_error_of_the_store_whoever_writes(
    tmp_path: Path, threads: int
) -> None:
    schema = Schema((TensorSpec("u", "U8", (8 * CHUNK_BYTES,), False),))
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(crew: Crew) -> None:
        with ArtifactWriter(tmp_path / "u", ArtifactKind.HEAD, schema, crew) as writer:
            writer.write(np.ones(8 * CHUNK_BYTES, np.uint8))
            writer.finish()

    resource.setrlimit(resource.RLIMIT_FSIZE, (5 * CHUNK_BYTES // 2, most))
    try:
        with hired(threads) as crew, pytest.raises(StoreError, match=f"{tmp_path / 'u'}: "):
            fill(crew)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_finds_the_disk_full_leaves_no_file(tmp_path: Path) -> None:
    names = (f"{number:0200}" for number in range(CHUNK_BYTES // 200))
    schema = Schema(tuple(TensorSpec(name, "F32", (0,), False) for name in names))
    assert len(layout_of(schema.tensors).header) > CHUNK_BYTES
    arrays = {tensor.name: np.zeros(0, "<f4") for tensor in schema.tensors}
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK_BYTES // 2, most))
    try:
        with pytest.raises(StoreError, match=f"{tmp_path / 'u'}: "):
            write_artifact(tmp_path / "u", ArtifactKind.HEAD, schema, arrays)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert list(tmp_path.iterdir()) == []


def test_to_write_whole_tensors_takes_the_memory_of_a_few_chunks(tmp_path: Path) -> None:
    count = 4 * CHUNK_BYTES
    schema = Schema(tuple(TensorSpec(name, "F32", (count,), False) for name in "ab"))
    arrays = dict.fromkeys("ab", np.full(count, -0.0, "<f4"))
    tracemalloc.start()
    try:
        write_artifact(tmp_path / "u", ArtifactKind.UPDATE, schema, arrays, synced=False)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * CHUNK_BYTES
    assert not TensorFile(tmp_path / "u").stored(1).tobytes().strip(b"\0")


def test_nothing_is_written_once_the_writer_is_left(tmp_path: Path) -> None:
    gate = threading.Event()
    schema = Schema((TensorSpec("u", "U8", (2 * CHUNK_BYTES,), False),))
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(gate.wait, 10)
        writer = ArtifactWriter(tmp_path / "u", ArtifactKind.HEAD, schema, Crew(pool, 1))
        with writer:
            writer.write(np.ones(CHUNK_BYTES, np.uint8))
        assert not busy.done()
        assert list(tmp_path.iterdir()) == []
        gate.set()


def test_a_file_of_whole_chunks_has_no_empty_last_one(tmp_path: Path) -> None:
    spare = CHUNK_BYTES - len(layout_of([TensorSpec("u", "U8", (10**6,), False)]).header)
    schema = Schema((TensorSpec("u", "U8", (spare,), False),))
    arrays = {"u": np.ones(spare, np.uint8)}
    manifest = write_artifact(tmp_path / "u", ArtifactKind.HEAD, schema, arrays)
    assert manifest.size_bytes == CHUNK_BYTES
    assert manifest == manifest_of(ArtifactKind.HEAD, schema.id, (tmp_path / "u").read_bytes())


def test_the_writer_makes_negative_zeros_positive(tmp_path: Path) -> None:
    arrays = {**ARRAYS, "a": np.full((2, 3), -0.0, "<f4"), "c": np.array([0x8000, 1], "<u2")}
    write_artifact(tmp_path / "file", ArtifactKind.HEAD, SCHEMA, arrays)
    file = TensorFile(tmp_path / "file")
    assert file.stored(0).tobytes() == bytes(24)
    assert file.stored(2).tolist() == [0, 1]


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    def write_a_part() -> None:
        with ArtifactWriter(tmp_path / "file", ArtifactKind.HEAD, SCHEMA) as writer:
            writer.write(np.zeros(6, "<f4"))
            writer.finish()

    with pytest.raises(LocalError, match="wrote"):
        write_a_part()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"a": None}, "'a' is missing"),
        ({"a": np.zeros((3, 2), "<f4")}, r"'a' is float32 \[3, 2\], the schema says F32 \[2, 3\]"),
        ({"n": np.array(1, "<i4")}, "'n' is int32"),
        ({"z": np.zeros(1, "<f4")}, "'z' is not in the schema"),
    ],
)
def test_the_writer_names_what_does_not_fit(
    tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    arrays = {name: array for name, array in {**ARRAYS, **change}.items() if array is not None}
    with pytest.raises(LocalError, match=complaint):
        write_artifact(tmp_path / "file", ArtifactKind.HEAD, SCHEMA, arrays)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_exists_is_not_written_over(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(StoreError, match="exists"):
        write_artifact(tmp_path / "file", ArtifactKind.HEAD, SCHEMA, ARRAYS)


def test_a_file_that_is_not_there_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such file"):
        TensorFile(tmp_path / "file")


@pytest.mark.parametrize(
    ("tensors", "complaint"),
    [
        (SCHEMA.tensors[1:], "'a' is missing"),
        (SCHEMA.tensors[:-1], "'none' is missing"),
        ((*SCHEMA.tensors, TensorSpec("z", "U8", (), True)), "'z' is not in the schema"),
        ((TensorSpec("A", "U8", (), True), *SCHEMA.tensors), "'A' is not in the schema"),
        ((TensorSpec("a", "F64", (2, 3), False), *SCHEMA.tensors[1:]), "'a' is F64"),
        ((TensorSpec("a", "F32", (6,), False), *SCHEMA.tensors[1:]), r"'a' has shape \[6\]"),
    ],
)
def test_the_first_tensor_that_differs_from_the_schema_is_named(
    tmp_path: Path, tensors: tuple[TensorSpec, ...], complaint: str
) -> None:
    other = Schema(tensors)
    arrays = {
        tensor.name: np.zeros(tensor.shape, FORMATS[tensor.dtype].storage) for tensor in tensors
    }
    write_artifact(tmp_path / "file", ArtifactKind.HEAD, other, arrays)
    with pytest.raises(RemoteError, match=complaint):
        TensorFile(tmp_path / "file").require(SCHEMA)


def test_i10_what_is_to_last_is_on_stable_storage_and_an_update_need_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    schema = Schema((TensorSpec("bias", "F32", (2,), False),))
    arrays = {"bias": np.zeros(2, np.float32)}
    made = write_artifact(tmp_path / "head", ArtifactKind.HEAD, schema, arrays)
    assert synced == [made.size_bytes]
    made = write_artifact(tmp_path / "update", ArtifactKind.UPDATE, schema, arrays, synced=False)
    assert len(synced) == 1
    assert (tmp_path / "update").stat().st_size == made.size_bytes
