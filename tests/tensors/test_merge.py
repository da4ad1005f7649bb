import math
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.work import (
    FULL,
    MILLION,
    InspectJob,
    Measured,
    Merged,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    Schema,
    TensorSpec,
    Verdict,
)
from p2pd.errors import LocalError, P2pError, RemoteError
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import FORMATS, canonical_zero, encode
from p2pd.tensors.inspection import inspect
from p2pd.tensors.merge import Outputs, merge, rows_to_cut
from p2pd.tensors.updates import Trained, write_update
from tests.tensors.merge_bench import CLIPPED, MEAN, OUTER, RULES, TRIMMED, Bench, schema_of

F32_MAX = float(np.finfo(np.float32).max)
DTYPES = ("F64", "F32", "F16", "BF16")


def merged_values(
    base: list[float], rows: list[list[float]], weights: list[int], rule: MergeRule
) -> tuple[Merged, list[float]]:
    """A merge of one F32 tensor."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), schema_of("F32", len(base)))
        job = bench.job(bench.add(base), [bench.add(row) for row in rows], weights)
        merged, head = bench.merge(replace(job, rule=rule))
        return merged, head.stored(0).tolist()


def half_unit(value: float) -> Fraction:
    """Half the distance to the next float32."""
    exponent = max(math.frexp(value)[1], -125)
    return Fraction(2) ** (exponent - 24) / 2


def exact_merge(
    base: list[float], rows: list[list[float]], weights: list[int], merged: Merged
) -> list[Fraction]:
    """The rule in rational numbers, one element at a time."""
    found = []
    for place, origin in enumerate(base):
        column = [Fraction(row[place]) for row in rows]
        if merged.rule == "trimmed_mean":
            kept = sorted(column)[1:-1]
            found.append(sum(kept, Fraction(0)) / len(kept))
            continue
        numerator = sum(
            (Fraction(w * c, FULL) * (x - Fraction(origin)))
            for w, c, x in zip(weights, merged.clips, column, strict=True)
        )
        found.append(Fraction(origin) + Fraction(numerator) / sum(weights))
    return found


def folded(base: list[float], rows: list[list[float]], weights: list[int], merged: Merged) -> Any:
    """The same float64 operations in the same order, by Python: must agree to the last bit."""
    found = []
    for place, origin in enumerate(base):
        column, scales = [row[place] + 0.0 for row in rows], [float(w) for w in weights]
        total = float(sum(weights))
        if merged.rule == "trimmed_mean":
            column = sorted(column)[1:-1]
            scales, total = [1.0] * len(column), float(len(column))
        clipped = min(merged.clips) < FULL
        if clipped:
            column = [x - origin for x in column]
            scales = [w * c / FULL for w, c in zip(weights, merged.clips, strict=True)]
        value = column[0] * scales[0]
        for x, scale in zip(column[1:], scales[1:], strict=True):
            value = value + x * scale
        found.append(origin + value / total if clipped else value / total)
    return encode(np.array(found, np.float64), "F32").tolist()


element = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1e-45, -1e-45, 1e-39, F32_MAX, -F32_MAX, 1.0, 1 + 2.0**-23]
)


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[int]]:
    width = draw(st.integers(1, 4))
    row = st.lists(element.map(lambda x: float(np.float32(x))), min_size=width, max_size=width)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    weights = st.lists(st.integers(1, 2**40), min_size=len(rows), max_size=len(rows))
    return draw(row), rows, draw(weights)


@settings(max_examples=150, deadline=None)
@given(cohorts(), st.sampled_from(RULES))
def test_a_merge_is_the_exact_rational_result_rounded(
    cohort: tuple[list[float], list[list[float]], list[int]], rule: MergeRule
) -> None:
    base, rows, weights = cohort
    merged, head = merged_values(base, rows, weights, rule)
    assert head == folded(base, rows, weights, merged)
    largest = max(abs(Fraction(x)) for row in [base, *rows] for x in row)
    for found, exact in zip(head, exact_merge(base, rows, weights, merged), strict=True):
        # float64 loses a few of its own units of the largest input, then one rounding to float32.
        assert abs(Fraction(found) - exact) <= half_unit(found) + largest * Fraction(20, 2**53)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_i06_one_trainer_or_k_identical_ones_are_reproduced_to_the_bit(
    dtype: str, data: st.DataObject
) -> None:
    kind = FORMATS[dtype].storage
    raw = data.draw(st.binary(min_size=5 * kind.itemsize, max_size=5 * kind.itemsize))
    own = np.frombuffer(raw, kind)
    wide = (own.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else own
    finite = np.isfinite(wide)
    if dtype == "F64":
        finite &= np.abs(np.where(finite, own, 0)) <= 2.0**900
    own = canonical_zero(np.where(finite, own, np.zeros(1, kind)), dtype)
    weights = data.draw(st.lists(st.integers(1, 2**62), min_size=1, max_size=6))
    rule = data.draw(st.sampled_from(RULES))
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), schema_of(dtype, 5))
        update = bench.add(own)
        job = bench.job(bench.add(np.ones(5, kind)), [update] * len(weights), weights)
        merged, head = bench.merge(replace(job, rule=rule))
        assert head.stored(0).tobytes() == own.tobytes()
        # An update and a head of the same bytes differ only in what their manifests call them.
        content = bench.paths[update].read_bytes()
        assert head.layout.header == content[: len(head.layout.header)]
        assert merged.clips == (FULL,) * len(weights)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("weights", [[1], [3, 3], [7, 2**53 + 1, 2**62 - 1], [10**9 + 7] * 64])
def test_i06_extremes_of_float32_are_reproduced_to_the_bit(
    rule: MergeRule, weights: list[int]
) -> None:
    own = [0.0, F32_MAX, -F32_MAX, 2.0**-149, -(2.0**-149), 2.0**-126, 2.0**-126 - 2.0**-149]
    own += [1 + 2.0**-23, 1 - 2.0**-24, 2.0**127]
    assert merged_values([0.5] * len(own), [own] * len(weights), weights, rule)[1] == own


@pytest.mark.parametrize("rule", RULES)
def test_i06_negative_zeros_and_arrival_and_chunks_do_not_change_a_bit(
    tmp_path: Path, rule: MergeRule
) -> None:
    generator = np.random.default_rng(5)
    bench = Bench(tmp_path, schema_of("F32", 1000))
    rows = [(generator.standard_normal(1000) * 10.0**number).astype("<f4") for number in range(5)]
    for number, row in enumerate(rows):
        row[number::7] = 0.0
    negative = [np.where(row == 0, np.float32(-0.0), row) for row in rows]
    base = bench.add(np.zeros(1000))
    results = set()
    for arrival in (rows, negative):
        job = bench.job(base, [bench.add(row) for row in arrival], [3, 5, 2**40, 7, 1])
        for chunk_elements in (1, 64, 999, 2**15):
            merged, _ = bench.merge(replace(job, rule=rule), chunk_elements=chunk_elements)
            results.add(merged)
    assert len(results) == 1


WHOLE = Schema(
    (
        TensorSpec("count", "I64", (3,), True),
        TensorSpec("mean", "F32", (70_000,), True),
        TensorSpec("weight", "F32", (600_001,), False),
        TensorSpec("wide", "F64", (300_000,), False),
    )
)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("outer", [OUTER, OuterRule("nesterov", MILLION, MILLION // 2)])
def test_i06_files_and_manifests_are_the_same_however_many_threads_merge(
    tmp_path: Path, rule: MergeRule, outer: OuterRule
) -> None:
    chance = np.random.default_rng(3)
    bench = Bench(tmp_path, WHOLE)
    counts = [math.prod(tensor.shape) for tensor in WHOLE.tensors]
    base, *updates = (bench.add(*map(chance.standard_normal, counts)) for _ in range(4))
    # The last is so long that it is clipped: the head is written twice.
    updates[-1] = bench.add(*(9 * chance.standard_normal(count) for count in counts))
    job = replace(bench.job(base, updates, [3, 5, 7]), rule=rule, optimizer=outer)
    found = set()
    for threads in (1, 2, 4):
        out = bench.path()
        result = merge(bench.paths, job, Outputs.beside(out), threads=threads)
        state = out.with_name(f"{out.name}.outer")
        assert state.exists() == outer.keeps_state
        raw = out.read_bytes(), state.read_bytes() if outer.keeps_state else None
        assert result.manifest == manifest_of(ArtifactKind.HEAD, WHOLE.id, raw[0])
        found.add((result, raw))
    assert len(found) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_merge_that_fails_leaves_no_file(tmp_path: Path, threads: int) -> None:
    count = 2_000_000
    bench = Bench(tmp_path, schema_of("F32", count))
    values = np.ones(count)
    good = bench.add(values)
    values[-1] = math.nan
    job = bench.job(good, [good, bench.add(values)], [1, 1])
    out = bench.path()
    with pytest.raises(RemoteError, match="not finite"):
        merge(bench.paths, job, Outputs.beside(out), threads=threads)
    assert not out.exists()


def test_a_clipped_update_pulls_towards_the_base() -> None:
    merged, head = merged_values(
        [1.0, 0.0], [[2.0, 0.0], [2.0, 0.0], [1.0, 4.0]], [1, 1, 2], CLIPPED
    )
    assert merged.clips == (FULL, FULL, FULL // 4)
    assert head == [1.5, 0.5]


def test_norms_are_in_units_of_the_smallest_exponent() -> None:
    merged, _ = merged_values([0.0, 0.0], [[3.0, 4.0]], [1], CLIPPED)
    assert merged.measured is not None
    norms, exponents = merged.measured.norms, merged.measured.exponents
    assert norms == (round(5 / 2.0 ** min(exponents)),)


@pytest.mark.parametrize("rule", [MEAN, TRIMMED])
def test_no_norms_are_taken_for_a_rule_that_clips_nothing(rule: MergeRule) -> None:
    merged, _ = merged_values([0.0], [[1.0], [2.0], [3.0]], [1, 1, 1], rule)
    assert merged.measured is None


def test_certified_exponents_are_used_and_new_ones_derived(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schema_of("F32", 2))
    job = bench.job(bench.add([0, 0]), [bench.add([3, 4])], [1])
    merged, _ = bench.merge(replace(job, exponents=(-4,), rule=CLIPPED))
    assert merged.measured == Measured((5 * 2**4,), (math.frexp(4.0)[1] - 15,))


@pytest.mark.parametrize(
    ("count", "rule", "used"),
    [(1, TRIMMED, "mean"), (2, TRIMMED, "mean"), (3, TRIMMED, TRIMMED.name)],
)
def test_the_rule_that_was_used_is_named(count: int, rule: MergeRule, used: str) -> None:
    rows = [[float(number)] for number in range(count)]
    merged, head = merged_values([0.0], rows, [1] * count, rule)
    assert merged.rule == used
    assert head == [(count - 1) / 2]


@given(st.integers(3, 500), st.integers(0, MILLION // 2 - 1))
def test_trimming_cuts_one_row_at_least_and_leaves_one_at_least(count: int, trim: int) -> None:
    cut = rows_to_cut(count, MergeRule("trimmed_mean", MILLION, trim))
    assert count - 2 * cut >= 1
    assert cut == max(1 if trim else 0, count * trim // MILLION)


def test_trimming_ignores_weights() -> None:
    rows = [[0.0], [1.0], [2.0], [1000.0]]
    assert merged_values([0.0], rows, [1, 1, 1, 2**40], TRIMMED)[1] == [1.5]


@pytest.mark.parametrize("rule", RULES)
def test_buffers_are_merged_by_mean_or_taken_from_the_greatest_weight(
    tmp_path: Path, rule: MergeRule
) -> None:
    schema = Schema(
        (
            TensorSpec("mask", "BOOL", (2,), True),
            TensorSpec("n", "I64", (2,), True),
            TensorSpec("r", "F32", (1,), True),
            TensorSpec("w", "F32", (1,), False),
        )
    )
    bench = Bench(tmp_path, schema)
    base = bench.add([0, 0], [0, 0], [100], [0])
    updates = [
        bench.add([0, 1], [1, 2**62], [1], [1]),
        bench.add([1, 0], [2, -1], [2], [1]),
        bench.add([1, 1], [3, 7], [33], [1000]),
    ]
    _, head = bench.merge(replace(bench.job(base, updates, [1, 2, 2]), rule=rule))
    assert head.stored(0).tolist() == [1, 0]
    assert head.stored(1).tolist() == [2, -1]
    assert head.stored(2).tolist() == [float(np.float32((1 + 4 + 66) / 5))]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("buffer", [False, True])
def test_what_is_not_finite_is_refused_and_named(tmp_path: Path, bad: float, buffer: bool) -> None:
    bench = Bench(tmp_path, schema_of("F32", 3, buffer=buffer))
    good, update = bench.add([1, 2, 3]), bench.add([1, bad, 3])
    with pytest.raises(
        RemoteError, match=f"artifact {update.hex()[:10]}: tensor 'x' .* not finite"
    ):
        bench.merge(bench.job(good, [good, update], [1, 1]))
    found = inspect(bench.paths, InspectJob(update, good, bench.schema))
    assert found.verdict is Verdict.NONFINITE
    assert "'x'" in found.detail


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_base_that_is_not_finite_is_refused(tmp_path: Path, bad: float) -> None:
    bench = Bench(tmp_path, schema_of("F32", 3))
    base, good = bench.add([1, bad, 3]), bench.add([1, 2, 3])
    with pytest.raises(RemoteError, match=r"tensor 'x' .* not finite"):
        bench.merge(replace(bench.job(base, [good], [1]), rule=CLIPPED))


def test_a_job_that_breaks_its_own_rules_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schema_of("F32", 1))
    one = bench.add([1])
    job = bench.job(one, [one, one], [1, 1])
    wrong: list[tuple[MergeJob, type[P2pError], str]] = [
        (replace(job, inputs=()), LocalError, "at least one"),
        (replace(job, inputs=job.inputs[::-1]), LocalError, "ascending"),
        (replace(job, inputs=job.inputs[:1] * 2), LocalError, "ascending"),
        (bench.job(one, [one], [0]), LocalError, "weight 0"),
        (replace(job, outer=one), LocalError, "outer"),
        (replace(job, base=ArtifactId(bytes(32))), LocalError, "no file"),
        (replace(job, exponents=()), RemoteError, "0 certified exponents for 1"),
        (replace(job, exponents=(5000,)), RemoteError, "out of range"),
        (replace(job, schema=schema_of("F32", 2)), RemoteError, "has shape"),
    ]
    for broken, error, complaint in wrong:
        with pytest.raises(error, match=complaint):
            bench.merge(broken)


def test_a_model_of_no_tensors_and_one_of_empty_tensors_are_merged(tmp_path: Path) -> None:
    for schema in (Schema(()), schema_of("F32", 0)):
        bench = Bench(tmp_path / str(len(schema.tensors)), schema)
        bench.root.mkdir()
        update = bench.add(*([] for _ in schema.tensors))
        merged, _ = bench.merge(replace(bench.job(update, [update] * 3, [1] * 3), rule=CLIPPED))
        assert merged.measured is not None
        assert merged.measured.norms == (0, 0, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["f32", "bf16", "int8"]))
def test_steps_from_an_earlier_head_are_put_upon_the_base_and_buffers_are_not(
    tmp_path_factory: pytest.TempPathFactory, seed: int, codec: str
) -> None:
    tensors = (TensorSpec("mean", "F32", (4,), True), TensorSpec("weight", "F32", (300,), False))
    bench = Bench(tmp_path_factory.mktemp("late"), Schema(tensors))
    chance = np.random.default_rng(seed)
    old, new, steps = (chance.normal(size=300).astype(np.float32) for _ in range(3))
    moved = (old + steps * np.float32(0.01)).astype(np.float32)
    mean = chance.normal(size=4).astype(np.float32)
    earlier, base = bench.add(mean, old), bench.add(mean, new)
    made, path = codec_of(codec, bench.schema), bench.path()
    trained = Trained({"mean": mean * 3, "weight": moved}, None)
    manifest, _ = write_update(path, made, TensorFile(bench.paths[earlier]), trained, None)
    bench.paths[manifest.id] = path
    entry = MergeInput(UpdateId(b"1"), manifest.id, 7, earlier)
    job = replace(bench.job(base, [], []), inputs=(entry,), codec=codec)
    _, head = bench.merge(job)
    reached = made.values(TensorFile(path), TensorFile(bench.paths[earlier]), 1, slice(0, 300))
    wanted = new.astype(np.float64) + (reached - old.astype(np.float64))
    assert head.stored(1).tolist() == wanted.astype(np.float32).tolist()
    assert head.stored(0).tolist() == (mean * 3).tolist()
