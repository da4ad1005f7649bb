import tracemalloc
from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from typing import Any, Generic, TypeVar

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.encoding import (
    MAX_ARRAYS,
    MAX_DEPTH,
    decode,
    decode_plain,
    encode,
    from_plain,
)
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.votes import Vote
from p2pd.errors import LocalError, RemoteError
from tests.core.strategies import KINDS, any_of

T = TypeVar("T")


class Colour(IntEnum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Inner:
    number: int
    label: str | None


@dataclass(frozen=True)
class Outer:
    colour: Colour
    flag: bool
    rows: tuple[Inner, ...]
    pair: tuple[int, bytes]

    def __post_init__(self) -> None:
        if self.pair[0] == 13:
            raise ValueError("thirteen is not welcome")


@dataclass(frozen=True)
class Box(Generic[T]):
    content: T


GOOD: Any = [1, True, [[2, None]], [3, b"x"]]


@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(st.data())
def test_what_is_encoded_is_decoded_to_the_same_object(kind: Any, data: st.DataObject) -> None:
    value = data.draw(any_of(kind))
    encoded = encode(value)
    assert decode(kind, encoded) == value
    assert encode(decode(kind, encoded)) == encoded


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_change_of_bytes_gives_another_object_or_is_refused(data: st.DataObject) -> None:
    value = data.draw(any_of(Signed[Vote]))
    encoded = bytearray(encode(value))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    try:
        other = decode(Signed[Vote], bytes(encoded))
    except RemoteError:
        return
    assert other != value
    assert encode(other) == bytes(encoded)


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=300), kind=st.sampled_from((Signed[Vote], Choices, Outer)))
def test_i08_any_bytes_give_an_object_or_a_remote_error(data: bytes, kind: Any) -> None:
    try:
        value = decode(kind, data)
    except RemoteError:
        return
    assert encode(value) == data


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text() | st.binary(),
    lambda items: st.lists(items, max_size=5) | st.dictionaries(st.text(), items, max_size=2),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(PLAIN, st.sampled_from((Signed[Vote], Choices, Outer)))
def test_i08_any_cbor_gives_an_object_or_a_remote_error(plain: Any, kind: Any) -> None:
    data = cbor2.dumps(plain)
    try:
        value = decode(kind, data)
    except RemoteError:
        return
    assert encode(value) == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "ends early"),
        (b"\x81", "array longer"),
        (b"\x42a", "ends early"),
        (b"\x19\x01", "ends early"),
        (b"\x01\x01", "bytes after"),
        (b"\x80\x80", "bytes after"),
        (b"\x18\x01", "not canonical"),
        (b"\x19\x00\xff", "not canonical"),
        (b"\x1a\x00\x00\xff\xff", "not canonical"),
        (b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff", "not canonical"),
        (b"\x38\x01", "not canonical"),
        (b"\x58\x01a", "not canonical"),
        (b"\x78\x01a", "not canonical"),
        (b"\x98\x01\x01", "not canonical"),
        (b"\x1c", "indefinite"),
        (b"\x9f\x01\xff", "indefinite"),
        (b"\x5f\x41a\xff", "indefinite"),
        (b"\x7f\x61a\xff", "indefinite"),
        (b"\xa0", "maps"),
        (b"\xa1\x01\x02", "maps"),
        (b"\xbf\xff", "maps"),
        (b"\xc1\x01", "tags"),
        (b"\xc2\x41\x01", "tags"),
        (b"\xd9\xd9\xf7\x01", "tags"),
        (b"\xf9\x3c\x00", "floats"),
        (b"\xfa\x3f\x80\x00\x00", "floats"),
        (b"\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00", "floats"),
        (b"\xf7", "other simple"),
        (b"\xf8\x20", "other simple"),
        (b"\xff", "other simple"),
        (b"\x61\xff", "not CBOR"),
        (b"\x63\xed\xa0\x80", "not CBOR"),
    ],
)
def test_i08_every_other_spelling_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(RemoteError, match=words):
        decode_plain(data)


def test_the_library_alone_would_take_what_is_refused_here() -> None:
    assert cbor2.loads(b"\x18\x01") == 1
    assert cbor2.loads(b"\x9f\x01\xff") == [1]
    assert cbor2.loads(b"\xc2\x41\x01") == 1
    assert cbor2.CBORDecoder(BytesIO(b"\x01\x01")).decode() == 1


@pytest.mark.parametrize(
    "head", [b"\x9b", b"\x5b", b"\x7b", b"\x9a", b"\x5a", b"\x7a"], ids=bytes.hex
)
def test_i08_a_false_length_takes_no_memory(head: bytes) -> None:
    width = 8 if head[0] & 1 else 4
    data = head + (2 ** (8 * width - 1)).to_bytes(width) + bytes(10)
    tracemalloc.start()
    with pytest.raises(RemoteError):
        decode_plain(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_i08_arrays_are_nested_so_deep_and_no_deeper() -> None:
    fits = b"\x81" * (MAX_DEPTH - 1) + b"\x01"
    assert encode(decode_plain(fits)) == fits
    with pytest.raises(RemoteError, match="too deep"):
        decode_plain(b"\x81" * MAX_DEPTH + b"\x01")
    with pytest.raises(RemoteError, match="too deep"):
        decode_plain(b"\x81" * 1_000_000)


def test_i08_many_tiny_arrays_are_refused_before_they_are_made() -> None:
    def nest(count: int) -> bytes:
        return b"\x9a" + count.to_bytes(4) + b"\x80" * count

    assert len(decode_plain(nest(MAX_ARRAYS - 1))) == MAX_ARRAYS - 1  # type: ignore[arg-type]
    tracemalloc.start()
    with pytest.raises(RemoteError, match="too many"):
        decode_plain(nest(MAX_ARRAYS))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_i08_an_object_above_the_limit_is_not_looked_at() -> None:
    data = encode(b"x" * 100)
    assert decode_plain(data, limit_bytes=len(data)) == b"x" * 100
    with pytest.raises(RemoteError, match="exceeds the limit of 101"):
        decode_plain(data, limit_bytes=len(data) - 1)


def test_a_plain_value_becomes_the_dataclass_it_stands_for() -> None:
    value = from_plain(Outer, GOOD)
    assert value == Outer(Colour.RED, True, (Inner(2, None),), (3, b"x"))  # fmt: skip
    assert type(value.colour) is Colour
    assert decode(Box[Inner], encode(Box(Inner(7, "seven")))) == Box(Inner(7, "seven"))


@pytest.mark.parametrize(
    ("place", "wrong", "words"),
    [
        ((), 1, "Outer must be an array of 4 fields"),
        ((), [1, True, []], "Outer must be an array of 4 fields"),
        ((0,), True, "Outer.colour must be int, got bool"),
        ((0,), 3, "Outer.colour: 3 is not a valid Colour"),
        ((0,), b"1", "Outer.colour must be int, got bytes"),
        ((1,), 1, "Outer.flag must be bool, got int"),
        ((2,), None, "Outer.rows must be an array"),
        ((2, 0), [2], r"Outer.rows\[0\] must be an array of 2 fields"),
        ((2, 0, 0), False, r"Outer.rows\[0\].number must be int, got bool"),
        ((2, 0, 0), None, r"Outer.rows\[0\].number must be int, got NoneType"),
        ((2, 0, 1), b"two", r"Outer.rows\[0\].label must be str, got bytes"),
        ((3,), [3], "Outer.pair must have 2 items, got 1"),
        ((3,), b"xx", "Outer.pair must be an array"),
        ((3, 1), "x", r"Outer.pair\[1\] must be bytes, got str"),
        ((3, 0), 13, "Outer: thirteen is not welcome"),
    ],
)
def test_a_wrong_type_is_refused_by_its_place(
    place: tuple[int, ...], wrong: Any, words: str
) -> None:
    plain: Any = decode_plain(encode(GOOD))
    if not place:
        plain = wrong
    else:
        target = plain
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = wrong
    with pytest.raises(RemoteError, match=f"^{words}$"):
        from_plain(Outer, plain)


@pytest.mark.parametrize("value", [2**64, -(2**64) - 1, 1.5, {1: 2}, {1}, object(), Outer])
def test_what_has_no_encoding_is_a_mistake_of_ours(value: object) -> None:
    with pytest.raises(LocalError):
        encode((value,))


@pytest.mark.parametrize("kind", [float, dict, list, int | str, int | str | None])
def test_a_type_that_cannot_be_decoded_is_a_mistake_of_ours(kind: Any) -> None:
    with pytest.raises(LocalError):
        from_plain(tuple[kind, ...], [None])


def test_the_largest_and_the_least_integer_are_carried_exactly() -> None:
    for value in (2**64 - 1, -(2**64), 2**63, 0, -1, 23, 24, 255, 256, 65535, 65536):
        assert decode(Inner, encode(Inner(value, None))).number == value
