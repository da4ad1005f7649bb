"""A sample of a data set as bytes and back: numbers, text, bytes, tensors, and tuples, lists and dicts of them.

One sample is canonical CBOR (p2pd.core.encoding). What that does not have is an array that begins with
a tag: [0, items] a tuple, [1, items] a list, [2, key, value, ...] a dict with its keys sorted, [3, type,
sides, bytes] a tensor, [4, 8 bytes] a float. Nothing in it is executed. Units: bytes.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import cast

from p2pd.core.encoding import INT_LEAST, INT_MOST, Plain, decode_plain, encode
from p2pd.core.work import DTYPE_BYTES
from p2pd.errors import RemoteError

SAMPLE_BYTES_MOST = 64 * 2**20
DEPTH_MOST = 16
"""Of tuples, lists and dicts in each other."""
SIDES_MOST = 16
NUMBERS_MOST = 2**40
"""In a tensor, a side of 0 taken for 1."""
FLOAT = struct.Struct(">d")


class Tag(IntEnum):
    TUPLE = 0
    LIST = 1
    DICT = 2
    TENSOR = 3
    FLOAT = 4


@dataclass(frozen=True, slots=True)
class Tensor:
    dtype: str
    """As in safetensors: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL."""
    shape: tuple[int, ...]
    data: bytes
    """Little-endian, the last side fastest."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"a tensor has the unknown type {self.dtype!r:.20}")
        if len(self.shape) > SIDES_MOST or any(side < 0 for side in self.shape):
            raise ValueError(f"a tensor has 0 to {SIDES_MOST} sides, none below 0")
        if prod(max(side, 1) for side in self.shape) > NUMBERS_MOST:
            raise ValueError("a tensor is too large")
        if prod(self.shape) * DTYPE_BYTES[self.dtype] != len(self.data):
            raise ValueError(f"a tensor of {len(self.data)} bytes has other sides")


Sample = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | Tensor
    | tuple["Sample", ...]
    | list["Sample"]
    | dict[str, "Sample"]
)


def dump_sample(sample: object) -> bytes:
    """
    Raises:
        ValueError: it is, or holds, something else than a Sample, or it is too large.
    """
    data = encode(_plain(sample, 0))
    if len(data) > SAMPLE_BYTES_MOST:
        raise ValueError(f"it has {len(data)} bytes, {SAMPLE_BYTES_MOST} are the most")
    try:
        decode_plain(data, limit_bytes=SAMPLE_BYTES_MOST)
    except RemoteError as error:
        raise ValueError(f"it could not be read again: {error}") from error
    return data


def load_sample(data: bytes) -> Sample:
    """Raises RemoteError: these are not the bytes of a sample."""
    return _sample(decode_plain(data, limit_bytes=SAMPLE_BYTES_MOST))


def _plain(value: object, depth: int) -> object:
    if depth > DEPTH_MOST:
        raise ValueError(f"it is nested more than {DEPTH_MOST} deep")
    match value:
        case None | bool() | str() | bytes():
            return value
        case int():
            if not INT_LEAST <= value <= INT_MOST:
                raise ValueError("it holds a whole number of more than 64 bits")
            return value
        case float():
            return [int(Tag.FLOAT), FLOAT.pack(value)]
        case Tensor():
            return [int(Tag.TENSOR), value.dtype, list(value.shape), value.data]
        case tuple():
            return [int(Tag.TUPLE), *(_plain(one, depth + 1) for one in value)]
        case list():
            return [int(Tag.LIST), *(_plain(one, depth + 1) for one in value)]
        case Mapping():
            return [int(Tag.DICT), *_items(value, depth)]
        case _:
            raise ValueError(f"it holds {type(value).__name__}, which has no form in a shard")


def _items(value: Mapping[object, object], depth: int) -> list[object]:
    keys = [key for key in value if isinstance(key, str)]
    if len(keys) != len(value):
        raise ValueError("it holds a dict whose keys are not all text")
    return [part for key in sorted(keys) for part in (key, _plain(value[key], depth + 1))]


def _sample(plain: Plain) -> Sample:
    if not isinstance(plain, list):
        return plain
    tag, *rest = plain or [None]
    if type(tag) is not int:
        raise RemoteError("an array in a sample must begin with its tag")
    match tag:
        case Tag.TUPLE:
            return tuple(map(_sample, rest))
        case Tag.LIST:
            return list(map(_sample, rest))
        case Tag.DICT:
            return _dict(rest)
        case Tag.TENSOR:
            return _tensor(rest)
        case Tag.FLOAT:
            return _float(rest)
        case _:
            raise RemoteError(f"an array in a sample has the unknown tag {tag}")


def _dict(rest: Sequence[Plain]) -> dict[str, Sample]:
    keys, values = rest[::2], rest[1::2]
    if len(keys) != len(values) or not all(isinstance(key, str) for key in keys):
        raise RemoteError("a dict in a sample is made of texts and values")
    names = [cast("str", key) for key in keys]
    if names != sorted(set(names)):
        raise RemoteError("the keys of a dict in a sample must be sorted and unique")
    return {name: _sample(value) for name, value in zip(names, values, strict=True)}


def _tensor(rest: Sequence[Plain]) -> Tensor:
    match rest:
        case [str(dtype), list(sides), bytes(data)] if all(type(side) is int for side in sides):
            try:
                return Tensor(dtype, tuple(cast("list[int]", sides)), data)
            except ValueError as error:
                raise RemoteError(f"in a sample {error}") from error
        case _:
            raise RemoteError("a tensor in a sample is made of its type, its sides and its bytes")


def _float(rest: Sequence[Plain]) -> float:
    match rest:
        case [bytes(data)] if len(data) == FLOAT.size:
            (value,) = FLOAT.unpack(data)
            return float(value)
        case _:
            raise RemoteError("a float in a sample is made of 8 bytes")
