import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from p2pd.tensors.formats import FORMATS, canonical_zero, decode, encode

FLOATING = [name for name, kind in FORMATS.items() if kind.floating]
BF16_MAX = 255 * 2.0**120
ALL_BF16 = np.arange(2**16, dtype=np.uint16)


def bf16_value(bits: int) -> Fraction:
    """The value of finite bits, by the definition of the format."""
    sign = -1 if bits >> 15 else 1
    exponent, fraction = (bits >> 7) & 0xFF, bits & 0x7F
    if exponent == 0:
        return sign * Fraction(fraction, 2**7) * Fraction(1, 2**126)
    return sign * (1 + Fraction(fraction, 2**7)) * Fraction(2) ** (exponent - 127)


def nearest_bf16(value: float) -> int:
    """The slow, obvious way: try both neighbours."""
    exact = abs(Fraction(value))
    low, high = 0, 0x7F80
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bf16_value(middle) <= exact else (low, middle)
    above = bf16_value(high) if high < 0x7F80 else Fraction(2) ** 128
    to_low, to_high = exact - bf16_value(low), above - exact
    nearest = low if to_low < to_high or (to_low == to_high and low % 2 == 0) else high
    return nearest | 0x8000 if value < 0 and nearest else nearest


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-BF16_MAX, max_value=BF16_MAX))
@example(1 + 2.0**-8)
@example(1 + 2.0**-8 + 2.0**-40)
@example(1 + 3 * 2.0**-8)
@example(2.0**-134)
@example(2.0**-133 * 1.5)
@example(-(2.0**-150))
def test_bf16_is_rounded_once_to_the_nearest_ties_to_even(value: float) -> None:
    assert int(encode(np.array([value]), "BF16")[0]) == nearest_bf16(value)


def test_every_finite_bf16_is_decoded_exactly_and_encoded_back() -> None:
    finite = ALL_BF16[(ALL_BF16 & 0x7F80) != 0x7F80]
    values = decode(finite, "BF16")
    assert [Fraction(value) for value in values.tolist()] == [bf16_value(int(b)) for b in finite]
    assert (encode(values, "BF16") == canonical_zero(finite, "BF16")).all()


@pytest.mark.parametrize(
    ("dtype", "edges"),
    [
        ("F16", (0.0, 2.0**-14, 2.0**-24, 65504.0, 1 + 2.0**-10)),
        ("F32", (0.0, 2.0**-126, 2.0**-149, (2 - 2.0**-23) * 2.0**127, 1 + 2.0**-23)),
        ("F64", (0.0, 2.0**-1022, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023, 1 + 2.0**-52)),
    ],
)
def test_every_kind_of_value_survives_decoding_and_encoding(
    dtype: str, edges: tuple[float, ...]
) -> None:
    stored = np.array([*edges, *(-edge for edge in edges)], dtype=FORMATS[dtype].storage)
    assert len({*stored.tolist()}) == 2 * len(edges) - 1
    assert encode(decode(stored, dtype), dtype).tobytes() == canonical_zero(stored, dtype).tobytes()


@pytest.mark.parametrize("dtype", FLOATING)
def test_both_zeros_become_the_positive_one(dtype: str) -> None:
    kind = FORMATS[dtype].storage
    minus_zero = np.array([0x8000 if dtype == "BF16" else -0.0], dtype=kind)
    assert canonical_zero(minus_zero, dtype).tobytes() == bytes(kind.itemsize)
    assert decode(minus_zero, dtype).tobytes() == bytes(8)
    assert encode(np.array([-0.0]), dtype).tobytes() == bytes(kind.itemsize)
    underflowing = np.array([-5e-324]) if dtype != "F64" else np.array([-0.0])
    assert encode(underflowing, dtype).tobytes() == bytes(kind.itemsize)


def test_integers_are_left_alone() -> None:
    stored = np.array([-(2**63), 2**63 - 1], dtype=np.int64)
    assert canonical_zero(stored, "I64") is stored


def test_a_signalling_nan_is_decoded_without_a_warning() -> None:
    stored = np.frombuffer(struct.pack("<I", 0x7F800001), "<f4")
    assert np.isnan(decode(stored, "F32")).all()
