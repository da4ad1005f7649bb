"""Steps as whole numbers times a scale of each block, and as bfloat16: how codecs make them small.

int8 has numbers from -127 to 127, int4 from -7 to 7, two in a byte. A block is in units of its
largest step over the largest number, rounded to nearest, ties to even. What is lost is the
caller's to keep.
"""

from collections.abc import Callable

import numpy as np

from p2pd.core.codecs import BLOCK_ELEMENTS, PACKED, SCALE_SUFFIX
from p2pd.errors import RemoteError
from p2pd.tensors.formats import Stored, Values, decode, encode

LARGEST = {"int8": 127.0, "int4": 7.0}
SCALE_LEAST = 2.0**-126
"""Of int4: a smaller one would be a denormal number, and its block is nothing."""

Quantizer = Callable[[Values], tuple[dict[str, Stored], Values]]
"""Parts of the file by suffix, and the steps that these stand for."""


def in_bf16(steps: Values) -> tuple[dict[str, Stored], Values]:
    stored = encode(steps, "BF16")
    return {"": stored}, decode(stored, "BF16")


def in_int8(steps: Values) -> tuple[dict[str, Stored], Values]:
    """Raises RemoteError: steps so large that no scale holds them."""
    units, scales, decoded = _in_blocks(steps, "int8", 0.0)
    return {"": units.astype(np.int8), SCALE_SUFFIX: scales}, decoded


def in_int4(steps: Values) -> tuple[dict[str, Stored], Values]:
    """Raises RemoteError: as in_int8."""
    units, scales, decoded = _in_blocks(steps, "int4", SCALE_LEAST)
    return {"": packed(units), SCALE_SUFFIX: scales}, decoded


QUANTIZERS: dict[str, Quantizer] = {"bf16": in_bf16, "int8": in_int8, "int4": in_int4}


def _in_blocks(steps: Values, codec: str, scale_least: float) -> tuple[Values, Stored, Values]:
    """Whole numbers, the scale of each block, and their products."""
    count, size, largest = len(steps), BLOCK_ELEMENTS[codec], LARGEST[codec]
    blocks = -(-count // size)
    padded = np.zeros(blocks * size)
    padded[:count] = steps
    table = padded.reshape(blocks, size)
    with np.errstate(all="ignore"):  # a scale that overflows is refused, one that underflows is 0
        scales = (np.abs(table).max(axis=1, initial=0.0) / largest).astype(np.float32)
        scales = np.where(scales < scale_least, np.float32(0), scales)
        wide = scales.astype(np.float64)[:, np.newaxis]
        units = np.where(wide > 0, np.rint(table / np.where(wide > 0, wide, 1.0)), 0.0)
    if not np.isfinite(scales).all():
        raise RemoteError(f"steps are too large for {codec}")
    units = np.maximum(np.minimum(units, largest), -largest)
    return units.reshape(-1)[:count], scales, (units * wide).reshape(-1)[:count] + 0.0


def times_scales(units: Values, scales: Values, start: int, size: int) -> Values:
    """Of numbers the first of which is element start of the first block, of so many elements each."""
    return units * np.repeat(scales, size)[start : start + len(units)] + 0.0


def packed(units: Values) -> Stored:
    """Numbers from -8 to 7, each in half a byte."""
    halves = np.zeros(-(-len(units) // PACKED) * PACKED, np.uint8)
    halves[: len(units)] = units.astype(np.int8).view(np.uint8) & np.uint8(0x0F)
    return halves[0::PACKED] | halves[1::PACKED] << np.uint8(4)


def unpacked(data: Stored) -> Stored:
    """The numbers of all halves, an empty one at the end included."""
    bits = data.view(np.uint8)
    numbers = np.empty(len(bits) * PACKED, np.int8)
    numbers[0::PACKED] = (bits << np.uint8(4)).view(np.int8) >> np.int8(4)
    numbers[1::PACKED] = bits.view(np.int8) >> np.int8(4)
    return numbers


def misfit(data: Stored, scales: Stored, count: int) -> str | None:
    """What tells whole blocks of int4 from those that in_int4 writes, of count numbers; None for nothing.

    A block is in units of its largest step: that one is 7, and what has no largest has no scale.
    """
    size, halves = BLOCK_ELEMENTS["int4"], unpacked(data)
    numbers = np.zeros(len(scales) * size, np.int8)
    numbers[: len(halves)] = halves
    if numbers[count:].any():
        return "has something where it ends"
    largest = np.abs(numbers.astype(np.int16)).reshape(-1, size).max(axis=1, initial=0)
    if (largest > LARGEST["int4"]).any():
        return "has numbers beyond 7"
    filled = scales >= np.float32(SCALE_LEAST)
    if (np.signbit(scales) | ~filled & (scales != 0)).any():
        return "has scales that are negative or next to nothing"
    if (largest != np.where(filled, LARGEST["int4"], 0)).any():
        return "has blocks that are not in units of their largest step"
    return None
