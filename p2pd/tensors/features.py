"""Norms, dots and distances of updates as exact integers: the same on every machine, in any order.

A delta (value minus base, in float64) is scaled by a power of two and rounded to 16 bits. Products
of such integers are below 2**30, so sums of 2**20 of them are exact in float64 in any order, and a
block's dot or matrix product is right to the last bit. Blocks are added as Python integers.

A tensor's exponent e says that one unit is 2**e. The cohort's exponent of a tensor fits the lower
median of the updates' largest deltas: with the maximum, one liar would round everyone else to zero.
An update whose own delta is larger than that gets its own, coarser exponent, so that nothing is cut
off: a cohort-wide limit would hide the length of exactly those updates that clipping is for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from p2pd.core.work import FULL, MILLION
from p2pd.tensors.cohort import Cohort
from p2pd.tensors.formats import Values

BITS = 15
"""Without the sign."""
LARGEST = 2.0**BITS - 1
EXPONENT_MIN = -900
EXPONENT_MAX = 900
SPREAD_MAX = 28
"""Between a cohort's largest and smallest exponent: smaller deltas add nothing to a norm."""
UNMOVED_EXPONENT = -64
"""For a cohort that moved nothing at all."""
REPORTED_MAX = 2**63 - 1

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Scales:
    """The exponents with which a cohort's features are taken."""

    own: tuple[tuple[int, ...], ...]
    """Per update and tensor: the cohort's, or coarser where a delta is too large for it."""
    unit: int
    """The finest exponent of the cohort: norms are in units of 2**unit."""


def maxima(cohort: Cohort) -> list[list[float]]:
    """Per update and tensor of the schema, the largest delta; 0 for tensors without features."""
    found = [[0.0] * len(cohort.schema.tensors) for _ in cohort.updates]
    for index in cohort.trained:
        for span in cohort.spans(index):
            base = cohort.base_values(index, span)
            for number, row in enumerate(found):
                delta = cohort.values(number, index, span) - base
                row[index] = max(row[index], float(np.abs(delta).max()))
    return found


def exponents(largest: Sequence[Sequence[float]], trained: Sequence[int]) -> tuple[int, ...]:
    """The cohort's exponent of each tensor, from the updates' maxima."""
    found = [0] * len(largest[0])
    moved = {}
    for index in trained:
        middle = lower_median([row[index] for row in largest])
        if middle:
            moved[index] = _exponent(middle)
    floor = max(moved.values()) - SPREAD_MAX if moved else UNMOVED_EXPONENT
    for index in trained:
        found[index] = max(moved.get(index, floor), floor)
    return tuple(found)


def scales(
    largest: Sequence[Sequence[float]], cohort: tuple[int, ...], trained: Sequence[int]
) -> Scales:
    """The exponents to use for a cohort whose updates' maxima are largest."""
    own = []
    for row in largest:
        fitting = list(cohort)
        for index in trained:
            if row[index]:
                fitting[index] = max(cohort[index], _exponent(row[index]))
        own.append(tuple(fitting))
    return Scales(tuple(own), min((cohort[index] for index in trained), default=0))


def integers(delta: Values, exponent: int) -> Values:
    """delta in units of 2**exponent, rounded to nearest, ties to even; at most 16 bits."""
    units = np.rint(delta * math.ldexp(1.0, -exponent))
    return np.maximum(np.minimum(units, LARGEST), -LARGEST)


def squared_norms(cohort: Cohort, used: Scales) -> list[int]:
    """Per update, in units of 2**(2 unit)."""
    totals = [0] * len(cohort.updates)
    for index in cohort.trained:
        for span in cohort.spans(index):
            base = cohort.base_values(index, span)
            for number, own in enumerate(used.own):
                units = integers(cohort.values(number, index, span) - base, own[index])
                totals[number] += int(np.dot(units, units)) << 2 * (own[index] - used.unit)
    return totals


def gram(cohort: Cohort, used: Scales) -> list[list[int]]:
    """Dots of all pairs of updates, in units of 2**(2 unit)."""
    count = len(cohort.updates)
    totals = [[0] * count for _ in range(count)]
    for index in cohort.trained:
        shift = [own[index] - used.unit for own in used.own]
        for span in cohort.spans(index):
            base = cohort.base_values(index, span)
            units = np.stack(
                [
                    integers(cohort.values(number, index, span) - base, own[index])
                    for number, own in enumerate(used.own)
                ]
            )
            block = np.matmul(units, units.T)
            for row in range(count):
                for column in range(count):
                    dot = int(block[row, column])
                    totals[row][column] += dot << (shift[row] + shift[column])
    return totals


def clip_factors(squares: Sequence[int], clip: int) -> tuple[int, ...]:
    """Per update, how much of it fits into clip millionths of the cohort's (lower) median norm.

    FULL for an update that is not longer than that.
    """
    bound = (FULL * clip) ** 2 * lower_median(squares)
    return tuple(
        min(FULL, math.isqrt(bound // (MILLION**2 * square))) if square else FULL
        for square in squares
    )


def reported_norms(squares: Sequence[int]) -> tuple[int, ...]:
    """Integer square roots; what 63 bits cannot hold is reported as the largest that they can."""
    return tuple(min(math.isqrt(square), REPORTED_MAX) for square in squares)


def lower_median(values: Sequence[Number]) -> Number:
    return sorted(values)[(len(values) - 1) // 2]


def _exponent(largest: float) -> int:
    """The finest exponent that holds a delta of that size in 16 bits."""
    return max(EXPONENT_MIN, min(math.frexp(largest)[1] - BITS, EXPONENT_MAX))
