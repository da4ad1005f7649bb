"""Merges a cohort of updates into the next head, bit for bit the same on every machine.

Trained tensors go through the job's rule and the outer optimizer. Floating buffers are merged by
weighted mean, as absolute values, under every rule. Integer and boolean tensors are taken whole
from the update of the greatest weight; of several such, from the one with the smallest id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId
from p2pd.core.work import FULL, MILLION, Merged, MergeJob, MergeRule
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors import features
from p2pd.tensors.cohort import CHUNK_ELEMENTS, Cohort, open_cohort
from p2pd.tensors.files import ArtifactWriter
from p2pd.tensors.formats import FORMATS, Values, encode
from p2pd.tensors.outer import OuterMean, OuterOptimizer
from p2pd.tensors.rules import clipped_mean, trimmed_mean, weighted_mean

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
    outer: OuterOptimizer


def merge(
    paths: Mapping[ArtifactId, Path],
    job: MergeJob,
    out_path: Path,
    *,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> tuple[Merged, Manifest]:
    """Writes the merged head to out_path; its manifest is made on the way.

    Raises:
        RemoteError: an input is not canonical, not of the schema, or not finite; it is named.
        StoreError: a file cannot be read or written.
        LocalError: the job breaks its own rules.
    """
    _check(job)
    cohort = open_cohort(paths, job, chunk_elements)
    largest = features.maxima(cohort)
    following = features.exponents(largest, cohort.trained)
    used = features.scales(largest, job.exponents or following, cohort.trained)
    squares = features.squared_norms(cohort, used)
    plan = _plan(job, squares)
    with ArtifactWriter(out_path, ArtifactKind.HEAD, job.schema) as writer:
        for index, tensor in enumerate(job.schema.tensors):
            if FORMATS[tensor.dtype].floating:
                _merge_floating(cohort, plan, index, writer)
            else:
                writer.write(cohort.stored(heaviest(plan.weights), index))
        manifest = writer.finish()
    norms = features.reported_norms(squares)
    return Merged(manifest.id, None, plan.rule, plan.clips, norms, following), manifest


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


def _merge_floating(cohort: Cohort, plan: _Plan, index: int, writer: ArtifactWriter) -> None:
    tensor = cohort.schema.tensors[index]
    wide = tensor.dtype == "F64"
    for span in cohort.spans(index):
        rows = [cohort.values(number, index, span) for number in range(len(cohort.updates))]
        if tensor.buffer:
            head = weighted_mean(rows, plan.weights, wide=wide)
        else:
            base = cohort.base_values(index, span)
            head = plan.outer.step(base, _merge_rows(plan, base, rows, wide=wide), None).head
        writer.write(encode(head, tensor.dtype))


def _merge_rows(plan: _Plan, base: Values, rows: Sequence[Values], *, wide: bool) -> Values:
    if plan.rule == "trimmed_mean":
        return trimmed_mean(rows, plan.cut, wide=wide)
    for clip in plan.clips:
        if clip < FULL:
            return clipped_mean(base, rows, plan.weights, plan.clips)
    # The plain merge reproduces equal updates to the bit; base + (x - base) would not.
    return weighted_mean(rows, plan.weights, wide=wide)


def _plan(job: MergeJob, squares: Sequence[int]) -> _Plan:
    count = len(job.inputs)
    weights = tuple(entry.weight for entry in job.inputs)
    clips = (FULL,) * count
    rule = job.rule.name
    if rule == "trimmed_mean" and count < TRIMMED_COHORT_MIN:
        rule = "mean"
    if rule == "norm_clipped_mean":
        clips = features.clip_factors(squares, job.rule.clip)
    return _Plan(rule, weights, clips, rows_to_cut(count, job.rule), OuterMean())


def _check(job: MergeJob) -> None:
    if not job.inputs:
        raise LocalError("a merge needs at least one update")
    for before, entry in zip(job.inputs, job.inputs[1:], strict=False):
        if before.update >= entry.update:
            raise LocalError("the updates of a merge must be ascending by id")
    for entry in job.inputs:
        if not 0 < entry.weight < 2**64:
            raise LocalError(f"weight {entry.weight} of an update is out of range")
    if job.outer is not None:
        raise LocalError("the outer mean keeps no state, but the job names one")
    if job.exponents is not None:
        _check_exponents(job.exponents, len(job.schema.tensors))


def _check_exponents(exponents: tuple[int, ...], tensors: int) -> None:
    if len(exponents) != tensors:
        raise RemoteError(f"{len(exponents)} certified exponents for {tensors} tensors")
    for exponent in exponents:
        if not features.EXPONENT_MIN <= exponent <= features.EXPONENT_MAX:
            raise RemoteError(f"certified exponent {exponent} is out of range")
