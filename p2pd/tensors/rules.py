"""Element-wise merge rules over one chunk of every update of a cohort.

Only multiply, add, subtract, divide, compare, where, conversion to float64, and a fixed network of
minimum and maximum: in float64 each of these is exact to the last bit on every machine, for any
instruction set. Reductions and sorting are not. Rows come in ascending order of update id and are folded from the left.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from p2pd.core.work import FULL
from p2pd.tensors.formats import Stored, Values


def weighted_mean(rows: Sequence[Stored], weights: Sequence[int], *, wide: bool) -> Values:
    """Rows may be narrower than float64: each element is converted, exactly, before it is multiplied.

    Where all rows agree the result is their value to the bit.

    For types up to 24 bits of precision that follows: float64 keeps 29 bits more, and each of fewer
    than 2**25 steps loses at most half a unit of its last one. For float64 itself (wide) it does
    not follow, w x / w may miss x by a unit, so agreement is looked for.
    """
    merged = rows[0].astype(float)
    np.multiply(merged, float(weights[0]), out=merged)
    total = weights[0]
    product = np.empty_like(merged)
    for row, weight in zip(rows[1:], weights[1:], strict=True):
        np.copyto(product, row)  # faster than to convert and multiply at once
        if weight != 1:
            np.multiply(product, float(weight), out=product)
        np.add(merged, product, out=merged)
        total += weight
    np.divide(merged, float(total), out=merged)
    if not wide:
        return merged
    agreed = rows[0] == rows[0]
    for row in rows[1:]:
        agreed = agreed & (row == rows[0])
    return np.where(agreed, rows[0], merged)


def clipped_step(
    base: Values, rows: Sequence[Values], weights: Sequence[int], clips: Sequence[int]
) -> Values:
    """sum(w c/1024 (x - base)) / sum(w): what was clipped pulls towards the base."""
    moved = np.zeros_like(base)
    total = 0
    for row, weight, clip in zip(rows, weights, clips, strict=True):
        step = row - base
        np.multiply(step, float(weight * clip) / FULL, out=step)
        np.add(moved, step, out=moved)
        total += weight
    return moved / float(total)


def trimmed_mean(rows: Sequence[Stored], cut: int, *, wide: bool) -> Values:
    """The mean of what is left when the cut lowest and the cut highest of each element are gone.

    It counts rows: every row that is left weighs the same.
    """
    kept = ordered(rows)[cut : len(rows) - cut]
    return weighted_mean(kept, [1] * len(kept), wide=wide)


def ordered(rows: Sequence[Stored]) -> list[Stored]:
    """The rows, each element's values ascending. Zeros must all be positive."""
    lanes = list(rows)
    for low, high in exchanges(len(lanes)):
        pair = lanes[low], lanes[high]
        lanes[low], lanes[high] = np.minimum(*pair), np.maximum(*pair)
    return lanes


@cache
def exchanges(count: int) -> tuple[tuple[int, int], ...]:
    """Pairs to compare and exchange, in order, so that count values end up ascending.

    Source: Batcher's merge exchange, Knuth, The Art of Computer Programming 3, 5.2.2 M.
    """
    pairs: list[tuple[int, int]] = []
    top = 1 << max(0, (count - 1).bit_length() - 1)
    stride = top if count > 1 else 0
    while stride:
        span, remainder, distance = top, 0, stride
        while distance:
            pairs.extend(
                (low, low + distance)
                for low in range(count - distance)
                if low & stride == remainder
            )
            distance, span, remainder = span - stride, span >> 1, stride
        stride >>= 1
    return tuple(pairs)
