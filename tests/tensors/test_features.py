import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.artifact import ArtifactKind
from p2pd.core.ids import ArtifactId
from p2pd.core.work import FULL, MILLION, Schema, TensorSpec
from p2pd.tensors import features
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.cohort import Cohort
from p2pd.tensors.crew import hired
from p2pd.tensors.files import TensorFile, write_artifact

SCHEMA = Schema(
    (
        TensorSpec("a", "F32", (6,), False),
        TensorSpec("b", "F64", (3,), False),
        TensorSpec("c", "F32", (4,), True),
        TensorSpec("n", "I64", (2,), False),
    )
)
Rows = list[list[float]]


def cohort_of(directory: Path, rows: Rows, chunk_elements: int = 4) -> Cohort:
    """The first row is the base. Six numbers go to a, three to b; the buffer c gets nonsense."""
    files = []
    for number, row in enumerate(rows):
        arrays = {
            "a": np.array(row[:6], "<f4"),
            "b": np.array(row[6:], "<f8"),
            "c": np.full(4, 1e30 * number, "<f4"),
            "n": np.full(2, 10**12 * number, "<i8"),
        }
        path = directory / str(number)
        path.unlink(missing_ok=True)
        write_artifact(path, ArtifactKind.UPDATE, SCHEMA, arrays)
        files.append(TensorFile(path))
    names = tuple(ArtifactId(bytes([number])) for number in range(1, len(rows)))
    return Cohort(
        SCHEMA,
        files[0],
        tuple(files[1:]),
        (files[0],) * len(files[1:]),
        names,
        codec_of("f32", SCHEMA),
        chunk_elements,
    )


def units_of(delta: float, exponent: int) -> int:
    """Exactly: nearest, ties to even, at most 16 bits."""
    return max(-(2**15 - 1), min(2**15 - 1, round(Fraction(delta) / Fraction(2) ** exponent)))


def exact_gram(rows: Rows, cohort: tuple[int, ...]) -> list[list[int]]:
    """The definition, one number at a time."""
    vectors = []
    unit = min(cohort[:2])
    for row in rows[1:]:
        deltas = [float(np.float64(x) - np.float64(b)) for x, b in zip(row, rows[0], strict=True)]
        vector: list[int] = []
        for part, certified in ((deltas[:6], cohort[0]), (deltas[6:], cohort[1])):
            largest = max(map(abs, part))
            own = math.frexp(largest)[1] - 15 if largest else certified
            exponent = max(certified, own)
            vector += [units_of(delta, exponent) << (exponent - unit) for delta in part]
        vectors.append(vector)
    return [
        [sum(x * y for x, y in zip(one, two, strict=True)) for two in vectors] for one in vectors
    ]


def survey(cohort: Cohort, tried: tuple[int, ...] | None = None) -> features.Survey:
    found = features.Survey.of(cohort, tried)
    for index in cohort.trained:
        for span in cohort.spans(index):
            rows, base = cohort.rows(index, span), cohort.base_values(index, span)
            found.add(index, found.look(index, base, rows))
    return found


def maxima(cohort: Cohort) -> list[list[float]]:
    return survey(cohort).largest


def squares_of(cohort: Cohort, used: features.Scales) -> list[int]:
    """Twice: with nothing known before, and with the cohort's exponents tried on the way."""
    tried = tuple(min(one) for one in zip(*used.own, strict=True))
    bare, known = survey(cohort), survey(cohort, tried)
    assert bare.largest == known.largest
    with hired(1) as crew:
        found = features.squared_norms(cohort, used, bare, crew)
        assert features.squared_norms(cohort, used, known, crew) == found
    return found


values = st.floats(width=32, min_value=-1e6, max_value=1e6) | st.sampled_from(
    [0.0, 2.0**-135, 1.0, -1.0, 2.0**-15, 2.0**127, -(2.0**127)]
)
row_lists = st.lists(st.lists(values, min_size=9, max_size=9), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(row_lists, st.integers(1, 7))
def test_norms_and_dots_are_the_exact_integers(
    tmp_path_factory: pytest.TempPathFactory, rows: Rows, chunk_elements: int
) -> None:
    cohort = cohort_of(tmp_path_factory.getbasetemp(), rows, chunk_elements)
    largest = maxima(cohort)
    exponents = features.exponents(largest, cohort.trained)
    used = features.scales(largest, exponents, cohort.trained)
    found = features.gram(cohort, used)
    assert found == exact_gram(rows, exponents)
    squares = squares_of(cohort, used)
    assert squares == [found[number][number] for number in range(len(squares))]


def test_only_trained_floating_tensors_have_features(tmp_path: Path) -> None:
    cohort = cohort_of(tmp_path, [[0.0] * 9, [0.0] * 9])
    assert cohort.trained == (0, 1)
    assert maxima(cohort) == [[0.0, 0.0, 0.0, 0.0]]


def test_a_full_block_of_the_largest_products_is_exact() -> None:
    units = np.full(2**20, features.LARGEST)
    units[::2] *= -1
    units[7] = 1.0
    exact = (2**20 - 1) * (2**15 - 1) ** 2 + 1
    assert int(np.dot(units, units)) == exact
    assert int(np.dot(units[::-1], units[::-1])) == exact


def test_the_exponent_is_that_of_the_lower_median_of_the_maxima() -> None:
    largest = [[1.0], [2.0**-10], [1e30], [3.0]]
    assert features.exponents(largest, (0,)) == (math.frexp(1.0)[1] - 15,)


def test_one_liar_cannot_round_honest_updates_to_zero(tmp_path: Path) -> None:
    honest = [0.001 * number for number in range(1, 10)]
    liar = [1e30] * 9
    cohort = cohort_of(tmp_path, [[0.0] * 9, honest, honest, liar])
    largest = maxima(cohort)
    exponents = features.exponents(largest, cohort.trained)
    squares = squares_of(cohort, features.scales(largest, exponents, cohort.trained))
    length = math.sqrt(squares[0]) * 2.0 ** min(exponents[:2])
    assert length == pytest.approx(math.sqrt(math.fsum(x * x for x in honest)), rel=1e-3)
    assert features.clip_factors(squares, MILLION) == (FULL, FULL, 0)


def test_one_huge_number_cannot_hide_behind_the_cohorts_exponent(tmp_path: Path) -> None:
    honest = [1.0] * 9
    spike = [1.0] * 8 + [1000.0]
    cohort = cohort_of(tmp_path, [[0.0] * 9, honest, honest, honest, spike])
    largest = maxima(cohort)
    exponents = features.exponents(largest, cohort.trained)
    squares = squares_of(cohort, features.scales(largest, exponents, cohort.trained))
    assert features.clip_factors(squares, MILLION)[:3] == (FULL, FULL, FULL)
    assert features.clip_factors(squares, MILLION)[3] == int(FULL * 3 / math.sqrt(8 + 1000**2))


def test_a_tensor_that_did_not_move_keeps_norms_within_64_bits() -> None:
    unmoved = features.exponents([[1.0, 0.0, 1e-38]], (0, 1, 2))
    assert unmoved[1] == unmoved[2] == unmoved[0] - features.SPREAD_MAX
    assert features.exponents([[0.0, 0.0]], (0,)) == (features.UNMOVED_EXPONENT, 0)


def test_norms_are_integer_square_roots_and_saturate() -> None:
    assert features.reported_norms([0, 3, 4, 10**50]) == (0, 1, 2, 2**63 - 1)


@given(st.lists(st.integers(0, 2**100), min_size=1, max_size=7), st.integers(1, 5 * MILLION))
def test_a_clip_factor_is_the_exact_ratio_rounded_down(squares: list[int], clip: int) -> None:
    median = sorted(squares)[(len(squares) - 1) // 2]
    for square, factor in zip(squares, features.clip_factors(squares, clip), strict=True):
        bound = Fraction(clip, MILLION) ** 2 * median
        assert Fraction(factor, FULL) ** 2 * square <= bound or factor == FULL
        if square <= bound:
            assert factor == FULL
        else:
            assert Fraction(factor + 1, FULL) ** 2 * square > bound


def test_longer_updates_are_clipped_more() -> None:
    factors = features.clip_factors([100, 100, 100, 400, 10**9], MILLION)
    assert factors[:4] == (FULL, FULL, FULL, FULL // 2)
    assert all(one >= two for one, two in pairwise(factors))


def test_rounding_up_past_sixteen_bits_saturates() -> None:
    almost = np.array([1 - 2.0**-40, -(1 - 2.0**-40), 0.5])
    assert features.integers(almost, -15).tolist() == [2**15 - 1, -(2**15 - 1), 2**14]
