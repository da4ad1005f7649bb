"""One layout is read, and any other refused by name."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.errors import RemoteError
from p2pd.tensors.files import TensorFile
from p2pd.tensors.layout import MAX_HEADER_BYTES, layout_of


def assembled(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def refusal(path: Path, raw: bytes) -> str:
    path.write_bytes(raw)
    with pytest.raises(RemoteError) as caught:
        TensorFile(path)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    return message


ENTRY = '"dtype":"F32","shape":[1],"data_offsets":[0,4]'


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "too few"),
        (b"1234567", "too few"),
        (struct.pack("<Q", 2**63), "header of"),
        (struct.pack("<Q", MAX_HEADER_BYTES + 8) + bytes(100), "header of"),
        (struct.pack("<Q", 0), "not JSON"),
        (assembled("{"), "not JSON"),
        (assembled("[" * 100_000), "not JSON"),
        (assembled("[]"), "not an object"),
        (assembled('{"a":1}'), "not described"),
        (assembled('{"a":{}}'), "no type"),
        (assembled('{"__metadata__":{"dtype":"F32","shape":[]}}'), "cannot be"),
        (assembled('{"":{"dtype":"F32","shape":[]}}'), "cannot be"),
        (assembled('{"a":{"dtype":"F31","shape":[]}}'), "unknown type 'F31'"),
        (assembled('{"a":{"dtype":"F32","shape":[-1]}}'), "shape"),
        (assembled('{"a":{"dtype":"F32","shape":[true]}}'), "shape"),
        (assembled('{"a":{"dtype":"F32","shape":[1.0]}}'), "shape"),
        (assembled('{"a":{"dtype":"F32","shape":[' + "1," * 40 + "1]}}"), "shape"),
        (assembled('{"a":{"dtype":"F32","shape":[9999999999999999999]}}'), "shape"),
        (assembled('{"\\ud800":{' + ENTRY + "}}", bytes(4)), "not valid text"),
        (assembled('{"a": {' + ENTRY + "}}", bytes(4)), "not canonical"),
        (assembled('{"\\u0061":{' + ENTRY + "}}", bytes(4)), "not canonical"),
        (assembled('{"a":{' + ENTRY + ',"x":0}}', bytes(4)), "not canonical"),
        (assembled('{"a":{' + ENTRY + '},"a":{' + ENTRY + "}}", bytes(4)), "not canonical"),
        (assembled('{"b":{' + ENTRY + '},"a":{' + ENTRY + "}}", bytes(4)), "not sorted"),
        (assembled('{"a":{' + ENTRY.replace("0,4", "4,8") + "}}", bytes(8)), "not canonical"),
        (assembled('{"a":{' + ENTRY + "}}", bytes(3)), "but the header wants"),
        (assembled('{"a":{' + ENTRY + "}}", bytes(5)), "but the header wants"),
        (assembled('{"a":{"dtype":"F32","shape":[1099511627776]}}'), "not canonical"),
    ],
)
def test_any_other_layout_is_refused_by_name(tmp_path: Path, raw: bytes, complaint: str) -> None:
    assert complaint in refusal(tmp_path / "file", raw)


def test_padding_that_is_longer_than_needed_is_refused(tmp_path: Path) -> None:
    text = ('{"a":{' + ENTRY + "}}").encode()
    text += b" " * (-len(text) % 8 + 8)
    raw = struct.pack("<Q", len(text)) + text + bytes(4)
    assert "not canonical" in refusal(tmp_path / "file", raw)


def test_a_hostile_name_stays_one_short_line(tmp_path: Path) -> None:
    name = "evil\\n" * 10_000
    refusal(tmp_path / "file", assembled('{"' + name + '":{"dtype":"F32","shape":[-1]}}'))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_i08_any_bytes_give_tensors_or_a_remote_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    raw = bytearray(assembled('{"a":{' + ENTRY + "}}", bytes(4)))
    if data.draw(st.booleans()):
        raw = bytearray(data.draw(st.binary(max_size=100)))
    else:
        for _ in range(data.draw(st.integers(0, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        file = TensorFile(path)
    except RemoteError:
        return
    # What is accepted has one encoding: writing it again gives the same bytes.
    again = file.layout.header + b"".join(
        file.stored(index).tobytes() for index in range(len(file.tensors))
    )
    assert again == bytes(raw)
    assert layout_of(file.tensors) == file.layout
