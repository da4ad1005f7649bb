"""Files of weights as other programs write them: what their header says is checked, and pickles are told apart."""

import json
import struct
from pathlib import Path

import pytest

from p2pd.core.work import TensorSpec
from p2pd.errors import RemoteError, StoreError
from p2pd.tensors.foreign import Entry, entries_of

ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


def file(path: Path, header: object, data: bytes = bytes(8)) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_order_metadata_gaps_and_odd_lengths_are_taken_as_they_are(tmp_path: Path) -> None:
    header = {
        "z": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]},
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [0, 4]},
    }
    path = file(tmp_path / "f", header, bytes(16))
    start = path.stat().st_size - 16
    assert entries_of(path) == (
        Entry(TensorSpec("z", "I64", (), False), start + 8),
        Entry(TensorSpec("a", "BF16", (2, 1), False), start),
    )


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"nonsense", "not safetensors: its header is not JSON"),
        ([], "not safetensors: its header is not an object"),
        ({"a": 7}, "tensor 'a' is not described by an object"),
        ({"a": {**ONE, "dtype": "F8_E4M3"}}, "tensor 'a' has the type 'F8_E4M3': a head holds F64"),
        ({"a": {**ONE, "shape": [-1]}}, "tensor 'a' has a shape that is none"),
        ({"a": {**ONE, "shape": [2**70]}}, "tensor 'a' wants"),
        ({"a": {**ONE, "data_offsets": [0]}}, "tensor 'a' has no place in the file"),
        ({"a": {**ONE, "data_offsets": [True, 4]}}, "tensor 'a' has no place in the file"),
        ({"a": {**ONE, "data_offsets": [6, 10]}}, "tensor 'a' wants 4 bytes of a place"),
        ({"a": {**ONE, "data_offsets": [-4, 0]}}, "tensor 'a' wants 4 bytes of a place"),
        ({"a": {**ONE, "data_offsets": [0, 8]}}, "tensor 'a' wants 4 bytes of a place"),
    ],
)
def test_what_contradicts_itself_is_refused_by_the_name_of_the_tensor(
    tmp_path: Path, header: object, said: str
) -> None:
    with pytest.raises(RemoteError) as caught:
        entries_of(file(tmp_path / "f", header))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("begins", [b"PK\x03\x04\x00\x00\x08\x08", b"\x80\x02\x8a\nl\xfc\x9cF"])
def test_a_pickle_is_told_apart_and_how_to_convert_it_is_said(
    tmp_path: Path, begins: bytes
) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(begins + bytes(100))
    with pytest.raises(RemoteError, match=r"torch\.save.*convert it.*save_file"):
        entries_of(path)


def test_a_header_of_so_many_bytes_as_an_old_pickle_begins_with_is_no_pickle(
    tmp_path: Path,
) -> None:
    header = {"a": {**ONE, "data_offsets": [0, 4]}, "__metadata__": {"x": ""}}
    text = json.dumps(header).encode()
    header["__metadata__"] = {"x": "y" * (0x0280 - len(text))}
    path = file(tmp_path / "f", header)
    assert path.read_bytes()[:2] == b"\x80\x02"
    assert len(entries_of(path)) == 1


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        entries_of(tmp_path / "nothing")
