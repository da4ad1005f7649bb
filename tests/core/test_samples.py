import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.encoding import encode
from p2pd.core.samples import DEPTH_MOST, Sample, Tensor, dump_sample, load_sample
from p2pd.errors import RemoteError

TENSORS = st.builds(
    lambda sides, kind: Tensor(kind[0], tuple(sides), b"\1" * (sides[0] * sides[1] * kind[1])),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([("F32", 4), ("BF16", 2), ("BOOL", 1), ("I64", 8)]),
)
SAMPLES: st.SearchStrategy[Sample] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**64), 2**64 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.binary(max_size=5),
        TENSORS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(SAMPLES)
def test_a_sample_comes_back_as_it_was_and_of_the_same_types(sample: Sample) -> None:
    again = load_sample(dump_sample(sample))
    assert again == sample
    assert repr(again).replace("-0.0", "0.0") == repr(_sorted(sample)).replace("-0.0", "0.0")


def _sorted(sample: Sample) -> Sample:
    match sample:
        case dict():
            return {key: _sorted(sample[key]) for key in sorted(sample)}
        case tuple():
            return tuple(map(_sorted, sample))
        case list():
            return list(map(_sorted, sample))
        case _:
            return sample


def test_the_order_in_which_a_dict_was_filled_does_not_matter() -> None:
    assert dump_sample({"a": 1, "b": 2.5}) == dump_sample({"b": 2.5, "a": 1})


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        ({1: 2}, "keys are not all text"),
        ({1, 2}, "set, which has no form"),
        (2**64, "more than 64 bits"),
        (nested(DEPTH_MOST + 1), "nested more than"),
        ([[]] * 2**18, "could not be read again"),
    ],
)
def test_what_has_no_form_is_refused_with_the_reason(sample: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        dump_sample(sample)


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [
        ("F31", (1,), bytes(4)),
        ("F32", (2,), bytes(4)),
        ("F32", (-1,), bytes(4)),
        ("U8", (0, 2**60), b""),
        ("U8", (1,) * 17, b"x"),
    ],
)
def test_a_tensor_is_of_a_known_type_and_as_large_as_its_sides(
    dtype: str, shape: tuple[int, ...], data: bytes
) -> None:
    with pytest.raises(ValueError, match="a tensor"):
        Tensor(dtype, shape, data)
    with pytest.raises(RemoteError):
        load_sample(encode([3, dtype, list(shape), data]))


@pytest.mark.parametrize(
    "plain",
    [
        [],
        ["x"],
        [9],
        [True],
        [2, "a"],
        [2, 1, 2],
        [2, "b", 1, "a", 2],
        [2, "a", 1, "a", 2],
        [3, "F32", [1]],
        [3, "F32", ["1"], bytes(4)],
        [4, b"short"],
        [4, 1.5 and 2],
    ],
)
def test_i08_arrays_that_are_no_part_of_a_sample_are_refused(plain: list[object]) -> None:
    with pytest.raises(RemoteError):
        load_sample(encode(plain))


def test_a_float_keeps_every_bit() -> None:
    odd = struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0]
    assert struct.pack(">d", load_sample(dump_sample(odd))) == bytes.fromhex("7ff8000000000123")
