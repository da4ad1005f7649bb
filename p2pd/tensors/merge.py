"""Merges a cohort of updates into the next head, bit for bit the same on every machine.

Trained tensors go through the job's rule and the outer optimizer. Floating buffers are merged by
weighted mean, as absolute values, under every rule. Integer and boolean tensors are taken whole
from the update of the greatest weight; of several such, from the one with the smallest id.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.codecs import outer_schema
from p2pd.core.ids import ArtifactId
from p2pd.core.work import FULL, MILLION, Merged, MergeJob, MergeRule
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors import features
from p2pd.tensors.cohort import CHUNK_ELEMENTS, Cohort, open_cohort, open_state
from p2pd.tensors.files import ArtifactWriter, TensorFile
from p2pd.tensors.formats import FORMATS, Values, encode
from p2pd.tensors.outer import Momentum, optimizer_of
from p2pd.tensors.rules import clipped_step, trimmed_mean, weighted_mean

TRIMMED_COHORT_MIN = 3
"""Below that, cutting one row off each end leaves none."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the trained tensors of one job are merged."""

    rule: str
    weights: tuple[int, ...]
    clips: tuple[int, ...]
    cut: int
    """Rows that the trimmed mean drops at each end."""
    outer: Momentum | None
    """None for the mean."""


def merge(
    paths: Mapping[ArtifactId, Path],
    job: MergeJob,
    out_path: Path,
    *,
    outer_path: Path | None = None,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> tuple[Merged, Manifest, Manifest | None]:
    """Writes the merged head to out_path, and the outer optimizer's state, if it keeps any, to outer_path.

    Their manifests are made on the way.

    Raises:
        RemoteError: an input is not canonical, not of the schema, or not finite; it is named.
        StoreError: a file cannot be read or written.
        LocalError: the job breaks its own rules.
    """
    _check(job)
    cohort = open_cohort(paths, job, chunk_elements)
    velocity = open_state(paths, job)
    largest = features.maxima(cohort)
    following = features.exponents(largest, cohort.trained)
    used = features.scales(largest, job.exponents or following, cohort.trained)
    squares = features.squared_norms(cohort, used)
    plan = _plan(job, squares)
    with ExitStack() as stack:
        head = stack.enter_context(ArtifactWriter(out_path, ArtifactKind.HEAD, job.schema))
        state = None
        if job.optimizer.keeps_state:
            path = outer_path or out_path.with_name(f"{out_path.name}.outer")
            writer = ArtifactWriter(path, ArtifactKind.OUTER, outer_schema(job.schema))
            state = stack.enter_context(writer)
        _write(_Merge(cohort, plan, velocity, head, state))
        manifest, kept = head.finish(), state.finish() if state else None
    norms = features.reported_norms(squares)
    outer = kept.id if kept else None
    return Merged(manifest.id, outer, plan.rule, plan.clips, norms, following), manifest, kept


@dataclass(frozen=True, slots=True)
class _Merge:
    cohort: Cohort
    plan: _Plan
    velocity: TensorFile | None
    """None before the first promoted head, and where there is no such state."""
    head: ArtifactWriter
    state: ArtifactWriter | None


def _write(work: _Merge) -> None:
    cohort = work.cohort
    numbers = {index: number for number, index in enumerate(cohort.trained)}
    for index, tensor in enumerate(cohort.schema.tensors):
        if index in numbers:
            _merge_trained(work, index, numbers[index])
        elif FORMATS[tensor.dtype].floating:
            _merge_buffer(work, index)
        else:
            work.head.write(cohort.stored(heaviest(work.plan.weights), index))


def heaviest(weights: Sequence[int]) -> int:
    """The first of the greatest weight."""
    best = 0
    for number, weight in enumerate(weights):
        if weight > weights[best]:
            best = number
    return best


def rows_to_cut(count: int, rule: MergeRule) -> int:
    """At each end: the trim share of count, rounded down, but at least one if any share is set."""
    return max(1, count * rule.trim // MILLION) if rule.trim else 0


def _merge_buffer(work: _Merge, index: int) -> None:
    """As an absolute value: never touched by a rule or by the outer optimizer."""
    tensor = work.cohort.schema.tensors[index]
    for span in work.cohort.spans(index):
        rows = work.cohort.rows(index, span)
        merged = weighted_mean(rows, work.plan.weights, wide=tensor.dtype == "F64")
        work.head.write(encode(merged, tensor.dtype))


def _merge_trained(work: _Merge, index: int, number: int) -> None:
    """number counts the trained tensors only: its place in the outer state."""
    cohort, plan = work.cohort, work.plan
    dtype = cohort.schema.tensors[index].dtype
    for span in cohort.spans(index):
        rows, base = cohort.rows(index, span), cohort.base_values(index, span)
        if plan.outer is None:
            merged = _merge_rows(plan, base, rows, wide=dtype == "F64")
            work.head.write(encode(merged, dtype))
            continue
        moved = _mean_step(plan, base, rows)
        before = work.velocity.values(number, span) if work.velocity else np.zeros_like(base)
        step = plan.outer.step(base, moved, before, dtype)
        work.head.write(encode(step.head, dtype))
        if work.state is not None:
            work.state.write(encode(step.velocity, "F32"))


def _merge_rows(plan: _Plan, base: Values, rows: Sequence[Values], *, wide: bool) -> Values:
    if plan.rule == "trimmed_mean":
        return trimmed_mean(rows, plan.cut, wide=wide)
    for clip in plan.clips:
        if clip < FULL:
            return base + clipped_step(base, rows, plan.weights, plan.clips)
    # The plain merge reproduces equal updates to the bit; base + (x - base) would not.
    return weighted_mean(rows, plan.weights, wide=wide)


def _mean_step(plan: _Plan, base: Values, rows: Sequence[Values]) -> Values:
    if plan.rule == "trimmed_mean":
        return trimmed_mean(rows, plan.cut, wide=False) - base
    return clipped_step(base, rows, plan.weights, plan.clips)


def _plan(job: MergeJob, squares: Sequence[int]) -> _Plan:
    count = len(job.inputs)
    weights = tuple(entry.weight for entry in job.inputs)
    clips = (FULL,) * count
    rule = job.rule.name
    if rule == "trimmed_mean" and count < TRIMMED_COHORT_MIN:
        rule = "mean"
    if rule == "norm_clipped_mean":
        clips = features.clip_factors(squares, job.rule.clip)
    return _Plan(rule, weights, clips, rows_to_cut(count, job.rule), optimizer_of(job.optimizer))


def _check(job: MergeJob) -> None:
    if not job.inputs:
        raise LocalError("a merge needs at least one update")
    for before, entry in zip(job.inputs, job.inputs[1:], strict=False):
        if before.update >= entry.update:
            raise LocalError("the updates of a merge must be ascending by id")
    for entry in job.inputs:
        if not 0 < entry.weight < 2**64:
            raise LocalError(f"weight {entry.weight} of an update is out of range")
    if job.outer is not None and not job.optimizer.keeps_state:
        raise LocalError(f"outer {job.optimizer.name} keeps no state, but the job names one")
    if job.exponents is not None:
        _check_exponents(job.exponents, len(job.schema.tensors))


def _check_exponents(exponents: tuple[int, ...], tensors: int) -> None:
    if len(exponents) != tensors:
        raise RemoteError(f"{len(exponents)} certified exponents for {tensors} tensors")
    for exponent in exponents:
        if not features.EXPONENT_MIN <= exponent <= features.EXPONENT_MAX:
            raise RemoteError(f"certified exponent {exponent} is out of range")
