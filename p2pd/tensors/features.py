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
from functools import partial
from typing import TypeVar

import numpy as np

from p2pd.core.work import FULL, MILLION
from p2pd.tensors.cohort import Cohort
from p2pd.tensors.crew import Crew
from p2pd.tensors.formats import Stored, Values

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


Found = list[tuple[float, int]]
"""Per update, the largest delta of a chunk, and its square."""
Place = tuple[int, slice]
"""A chunk: the number of its tensor, and its elements."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a cohort finds."""

    largest: list[list[float]]
    """Per update and tensor of the schema, the largest delta; 0 for tensors without features."""
    tried: tuple[int, ...] | None
    """The exponents with which squares were taken on the way; None where they were not known yet."""
    squares: list[list[int]]
    """Per update and tensor, in units of 2**(2 tried); right where no delta was too large for them."""

    @classmethod
    def of(cls, cohort: Cohort, tried: tuple[int, ...] | None) -> "Survey":
        """Nothing was looked at yet."""
        tensors = len(cohort.schema.tensors)
        largest = [[0.0] * tensors for _ in cohort.updates]
        return cls(largest, tried, [[0] * tensors for _ in cohort.updates])

    def add(self, index: int, found: Found) -> None:
        """A chunk of a tensor."""
        for number, (peak, square) in enumerate(found):
            self.largest[number][index] = max(self.largest[number][index], peak)
            self.squares[number][index] += square

    def look(self, index: int, base: Stored, rows: Sequence[Stored]) -> Found:
        """At one chunk of all updates, in any types that float64 holds exactly.

        The largest delta of a row is not finite where an element of it, or of the base, is not.
        """
        found = []
        origin = base.astype(np.float64, copy=False)
        delta = np.empty_like(origin)
        for row in rows:
            np.copyto(delta, row)  # faster than to convert and subtract at once
            np.subtract(delta, origin, out=delta)
            peak = max(float(delta.max()), -float(delta.min()))
            square = 0
            # A larger one gets an exponent of its own, and is looked at again.
            if self.tried is not None and peak < math.ldexp(1.0, self.tried[index] + BITS):
                square = _square(delta, self.tried[index], peak)
            found.append((peak, square))
        return found


def _square(delta: Values, exponent: int, peak: float) -> int:
    """In units of 2**(2 exponent); delta, whose largest is peak, is used up."""
    scale = math.ldexp(1.0, -exponent)
    np.multiply(delta, scale, out=delta)
    np.rint(delta, out=delta)
    if peak * scale > LARGEST:
        np.maximum(np.minimum(delta, LARGEST), -LARGEST, out=delta)
    return int(np.dot(delta, delta))


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


def squared_norms(cohort: Cohort, used: Scales, known: Survey, crew: Crew) -> list[int]:
    """Per update, in units of 2**(2 unit). Looks again where the survey tried another exponent."""
    totals = [0] * len(cohort.updates)
    for number, own in enumerate(used.own):
        for index in cohort.trained:
            if known.tried is not None and known.tried[index] == own[index]:
                square = known.squares[number][index]
            else:
                peak = known.largest[number][index]
                again = partial(_look_again, cohort, number, own[index], peak)
                square = 0
                for part in crew.each(again, ((index, span) for span in cohort.spans(index))):
                    square += part
            totals[number] += square << 2 * (own[index] - used.unit)
    return totals


def _look_again(cohort: Cohort, number: int, exponent: int, peak: float, place: Place) -> int:
    delta = cohort.values(number, *place)
    np.subtract(delta, cohort.base_values(*place), out=delta)
    return _square(delta, exponent, peak)


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
