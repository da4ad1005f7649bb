"""The element types of artifacts, and exact conversion to and from float64.

Names are those of safetensors; storage is little-endian. BF16 has no numpy type: it is held as
uint16.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
"""Decoded elements: float64, one axis."""
Stored = npt.NDArray[np.generic]
"""Elements as they lie in a file."""


@dataclass(frozen=True, slots=True)
class Format:
    storage: np.dtype[np.generic]
    floating: bool


FORMATS = {
    "F64": Format(np.dtype("<f8"), True),
    "F32": Format(np.dtype("<f4"), True),
    "F16": Format(np.dtype("<f2"), True),
    "BF16": Format(np.dtype("<u2"), True),
    "I64": Format(np.dtype("<i8"), False),
    "I32": Format(np.dtype("<i4"), False),
    "I16": Format(np.dtype("<i2"), False),
    "I8": Format(np.dtype("i1"), False),
    "U8": Format(np.dtype("u1"), False),
    "BOOL": Format(np.dtype("u1"), False),
}
_BF16_MINUS_ZERO = 0x8000
_BF16_EXPONENT = np.uint16(0x7F80)
MAGNITUDE_MAX = 2.0**900
"""Larger float64 values count as not finite: weighted sums of them would overflow."""


def decode(stored: Stored, dtype: str) -> Values:
    """Floating elements as float64, exactly, with every zero positive.

    Minimum and maximum order the two zeros by instruction set: -0.0 must not reach them.
    """
    with np.errstate(all="ignore"):  # a signalling NaN is found by whoever checks the values
        if dtype == "BF16":
            stored = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        values = stored.astype(np.float64)
        return np.add(values, 0.0, out=values)


def finite(stored: Stored, dtype: str) -> bool:
    """No NaN, no infinity; of float64 also nothing so large that weighted sums would overflow."""
    if dtype == "BF16":
        exponents = np.bitwise_and(stored.view(np.uint16), _BF16_EXPONENT)
        return bool((exponents != _BF16_EXPONENT).all())
    if dtype == "F64":
        return bool((np.abs(stored) <= MAGNITUDE_MAX).all())
    return bool(np.isfinite(stored).all())


def encode(values: Values, dtype: str) -> Stored:
    """Elements of a file: values rounded once, to nearest, ties to even; zeros positive."""
    with np.errstate(all="ignore"):  # what underflows becomes denormal or zero: the nearest value
        if dtype == "BF16":
            return canonical_zero(_to_bf16(values), dtype)
        stored = values.astype(FORMATS[dtype].storage)
        if dtype == "F16":
            return canonical_zero(stored, dtype)
        return np.add(stored, 0.0, out=stored)  # as canonical_zero, in place


def canonical_zero(stored: Stored, dtype: str) -> Stored:
    """The same elements with -0.0 replaced by 0.0, so that equal values are equal bytes.

    Whoever writes an update does this: merging decodes -0.0 as 0.0, and one trainer, or
    several equal ones, must be reproduced to the bit.
    """
    if not FORMATS[dtype].floating:
        return stored
    if dtype == "BF16":
        return np.where(stored == _BF16_MINUS_ZERO, np.uint16(0), stored)
    zero = np.zeros(1, FORMATS[dtype].storage)
    if dtype == "F16":
        return np.where(stored == zero, zero, stored)
    return np.add(stored, zero)  # adding a zero alters nothing but the sign of -0.0


def _to_bf16(values: Values) -> Stored:
    """Through float32 rounded to odd, which leaves the second rounding nothing to get wrong.

    Source: Boldo and Melquiond, "When double rounding is odd", 2005.
    """
    nearest = values.astype(np.float32)
    bits = nearest.view(np.uint32)
    back = nearest.astype(np.float64)
    too_far = np.abs(back) > np.abs(values)
    truncated = np.where(too_far, bits - np.uint32(1), bits)
    odd = np.where(back == values, truncated, truncated | np.uint32(1))
    ties_to_even = np.uint32(0x7FFF) + ((odd >> np.uint32(16)) & np.uint32(1))
    bf16: Stored = ((odd + ties_to_even) >> np.uint32(16)).astype(np.uint16)
    return bf16
