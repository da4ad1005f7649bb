import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.tensors.formats import MAGNITUDE_MAX, Values
from p2pd.tensors.rules import exchanges, ordered, trimmed_mean, weighted_mean

finite = st.floats(min_value=-MAGNITUDE_MAX, max_value=MAGNITUDE_MAX)


@pytest.mark.parametrize("count", range(1, 13))
def test_the_network_orders_every_pattern_of_zeros_and_ones(count: int) -> None:
    # The zero-one principle (Knuth 5.3.4): a network that orders these orders everything.
    patterns = np.array(list(itertools.product((0.0, 1.0), repeat=count))).T
    found = np.stack(ordered(list(patterns)))
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.add.reduce(found, axis=0) == np.add.reduce(patterns, axis=0)).all()


@given(st.integers(13, 70), st.integers(0, 2**32))
def test_the_network_agrees_with_sorting(count: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(-9, 9, (count, 5)).astype(np.float64)
    assert np.array_equal(np.stack(ordered(list(matrix))), np.sort(matrix, axis=0))


def test_ordering_leaves_its_inputs_alone() -> None:
    rows = [np.array([2.0]), np.array([1.0])]
    ordered(rows)
    assert [row.tolist() for row in rows] == [[2.0], [1.0]]


def test_one_row_needs_no_exchange() -> None:
    assert exchanges(1) == ()
    assert exchanges(2) == ((0, 1),)


@given(finite, st.lists(st.integers(1, 2**63), min_size=1, max_size=9))
def test_equal_float64_rows_come_out_as_they_are(value: float, weights: list[int]) -> None:
    row: Values = np.array([value + 0.0])
    rows = [row] * len(weights)
    merged = weighted_mean(rows, weights, wide=True)
    assert merged.tobytes() == row.tobytes()
    assert trimmed_mean(rows, 0, wide=True).tobytes() == merged.tobytes()


def test_float64_alone_would_miss_equal_rows() -> None:
    # Why agreement is looked for: w x / w is not always x.
    candidates: Values = np.linspace(1.0, 1.0 + 999 * 2.0**-52, 1000)
    for weight in range(3, 60, 2):
        if (weighted_mean([candidates] * 3, [weight] * 3, wide=False) != candidates).any():
            return
    pytest.fail("float64 reproduces equal rows by itself: the search for agreement is not needed")


def test_trimming_drops_the_outermost_values_of_each_element() -> None:
    rows = [np.array(row) for row in ([1.0, 9.0], [2.0, 1e30], [3.0, 7.0], [-1e30, 8.0])]
    assert trimmed_mean(rows, 1, wide=False).tolist() == [1.5, 8.5]
