"""Merges a cohort of updates into the next head, bit for bit the same on every machine.

Trained tensors go through the job's rule and the outer optimizer. Floating buffers are merged by
weighted mean, as absolute values, under every rule. Integer and boolean tensors are taken whole
from the update of the greatest weight; of several such, from the one with the smallest id.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.codecs import is_trained, outer_schema
from p2pd.core.ids import ArtifactId
from p2pd.core.work import (
    FULL,
    MILLION,
    HeadStep,
    Measured,
    Merged,
    MergeJob,
    MergeRule,
    Schema,
    TensorSpec,
)
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors import features
from p2pd.tensors.calls import MergeAnswer
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.cohort import CHUNK_ELEMENTS, Cohort, open_cohort, open_state
from p2pd.tensors.crew import Crew, hired
from p2pd.tensors.files import ArtifactWriter, TensorFile
from p2pd.tensors.formats import FORMATS, Stored, Values, canonical_zero, decode, encode, finite
from p2pd.tensors.outer import Momentum, optimizer_of
from p2pd.tensors.rules import clipped_step, trimmed_mean, weighted_mean
from p2pd.tensors.stepping import StepWriter, stepped

RUN_CHUNKS = 4
"""Merged by one thread without handing over."""
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


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that a merge writes; none may exist."""

    head: Path
    outer: Path
    """What is certified beside the head, if anything is."""
    step: Path
    """The head's step, if it is made of one."""

    @classmethod
    def beside(cls, head: Path) -> "Outputs":
        return cls(head, head.with_name(f"{head.name}.outer"), head.with_name(f"{head.name}.step"))


def merge(
    paths: Mapping[ArtifactId, Path],
    job: MergeJob,
    outputs: Outputs,
    *,
    chunk_elements: int = CHUNK_ELEMENTS,
    threads: int = 1,
) -> MergeAnswer:
    """Writes the merged head, and what is certified with it. Manifests are made on the way.

    Raises:
        RemoteError: an input is not canonical, not of the schema, or not finite; it is named.
        StoreError: a file cannot be read or written.
        LocalError: the job breaks its own rules.
    """
    _check(job)
    cohort = open_cohort(paths, job, chunk_elements)
    merging = _Merge(job, cohort, open_state(paths, job), outputs)
    measured = None
    with hired(threads) as crew:
        plan = _plan(job, None)
        if plan.rule == "norm_clipped_mean":
            plan, measured, done = _measure_and_write(merging, plan, crew)
        else:
            with _writing(merging, crew) as writers:
                _write(_Pass(merging, plan, None), writers, crew)
                done = writers.finish()
    head, outer, step = done
    made_of = None if step is None else HeadStep(job.base, step.id)
    kept = outer.id if outer else None
    merged = Merged(head.id, kept, plan.rule, plan.clips, measured, made_of)
    return MergeAnswer(merged, head, outer, step)


_Manifests = tuple[Manifest, Manifest | None, Manifest | None]
"""Of the head, the state and the step."""


def _measure_and_write(
    merging: "_Merge", plan: _Plan, crew: Crew
) -> tuple[_Plan, Measured, _Manifests]:
    """Norms come out of the pass that makes the head.

    Only then is it known whether an update is to be clipped; if one is, the head is made again.
    """
    survey = features.Survey.of(merging.cohort, merging.job.exponents)
    with _writing(merging, crew) as writers:
        _write(_Pass(merging, plan, survey), writers, crew)
        squares, following = _norms(merging, survey, crew)
        measured = Measured(features.reported_norms(squares), following)
        right = _plan(merging.job, squares)
        if right == plan:
            return plan, measured, writers.finish()
    with _writing(merging, crew) as writers:
        _write(_Pass(merging, right, None), writers, crew)
        return right, measured, writers.finish()


@dataclass(frozen=True, slots=True)
class _Merge:
    job: MergeJob
    cohort: Cohort
    before: TensorFile | None
    """The state before; None before the first promoted head, and where there is no such state."""
    outputs: Outputs


def _norms(
    merging: _Merge, survey: features.Survey, crew: Crew
) -> tuple[list[int], tuple[int, ...]]:
    """Squared norms of the updates, and the exponents for the next merge."""
    trained = merging.cohort.trained
    following = features.exponents(survey.largest, trained)
    used = features.scales(survey.largest, merging.job.exponents or following, trained)
    return features.squared_norms(merging.cohort, used, survey, crew), following


@dataclass(frozen=True, slots=True)
class _Writers:
    head: ArtifactWriter
    state: ArtifactWriter | None
    step: StepWriter | None

    def write(self, chunk: "_Chunk") -> None:
        self.head.write(chunk.head)
        if self.state is not None and chunk.state is not None:
            self.state.write(chunk.state)
        if self.step is not None:
            numbers = chunk.head if chunk.numbers is None else chunk.numbers
            self.step.write(chunk.index, numbers, chunk.scales)

    def finish(self) -> _Manifests:
        state = None if self.state is None else self.state.finish()
        return self.head.finish(), state, None if self.step is None else self.step.finish()


@contextmanager
def _writing(merging: _Merge, crew: Crew) -> Iterator[_Writers]:
    """What is not finished is removed."""
    job, outputs = merging.job, merging.outputs
    with ExitStack() as stack:

        def writer(path: Path, kind: ArtifactKind, schema: Schema) -> ArtifactWriter:
            return stack.enter_context(ArtifactWriter(path, kind, schema, crew))

        head = writer(outputs.head, ArtifactKind.HEAD, job.schema)
        state, step = None, None
        if job.state_parts:
            schema = outer_schema(job.schema, job.state_parts)
            state = writer(outputs.outer, ArtifactKind.OUTER, schema)
        if job.head_codec != "f32":
            codec = codec_of(job.head_codec, job.schema)
            step = StepWriter(writer(outputs.step, ArtifactKind.STEP, codec.file), codec)
        yield _Writers(head, state, step)


@dataclass(frozen=True, slots=True)
class _Pass:
    """One way through all chunks."""

    merging: _Merge
    plan: _Plan
    survey: features.Survey | None
    """Filled on the way."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    index: int
    head: Stored
    state: Stored | None = None
    numbers: Stored | None = None
    """Of the head's step, with their scales; None where the step carries the head's own elements."""
    scales: Stored | None = None
    found: features.Found = field(default_factory=list)


def _write(work: _Pass, writers: _Writers, crew: Crew) -> None:
    cohort = work.merging.cohort
    places = [
        (index, span)
        for index, tensor in enumerate(cohort.schema.tensors)
        for span in _spans(cohort, index, tensor)
    ]
    runs = (places[start : start + RUN_CHUNKS] for start in range(0, len(places), RUN_CHUNKS))
    for run in crew.each(partial(_merge_run, work), runs):
        for chunk in run:
            writers.write(chunk)
            if work.survey is not None:
                work.survey.add(chunk.index, chunk.found)


def _spans(cohort: Cohort, index: int, tensor: TensorSpec) -> Iterable[slice]:
    return cohort.spans(index) if FORMATS[tensor.dtype].floating else (slice(None),)


def _merge_run(work: _Pass, places: Sequence[features.Place]) -> list[_Chunk]:
    return [_merge_chunk(work, place) for place in places]


def _merge_chunk(work: _Pass, place: features.Place) -> _Chunk:
    cohort, (index, span) = work.merging.cohort, place
    tensor, weights = cohort.schema.tensors[index], work.plan.weights
    if is_trained(tensor):
        chunk = _merge_trained(work, index, span)
        return chunk if work.merging.job.head_codec == "f32" else _in_steps(work, chunk, span)
    if FORMATS[tensor.dtype].floating:
        # As an absolute value: never touched by a rule or by the outer optimizer.
        merged = weighted_mean(cohort.rows(index, span), weights, wide=tensor.dtype == "F64")
        return _Chunk(index, encode(merged, tensor.dtype))
    return _Chunk(index, cohort.stored(heaviest(weights), index))


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


def _merge_trained(work: _Pass, index: int, span: slice) -> _Chunk:
    quick = _merge_narrow(work, index, span)
    if quick is not None:
        return quick
    cohort, plan = work.merging.cohort, work.plan
    dtype = cohort.schema.tensors[index].dtype
    rows, base = cohort.rows(index, span), cohort.base_values(index, span)
    state = None
    if plan.outer is None:
        head = _merge_rows(plan, base, rows, wide=dtype == "F64")
    else:
        moved = _mean_step(plan, base, rows)
        step = plan.outer.step(base, moved, _before(work.merging, index, span, 0), dtype)
        head, state = step.head, encode(step.velocity, "F32")
    stored = encode(head, dtype)
    found = [] if work.survey is None else work.survey.look(index, base, rows)
    return _Chunk(index, stored, state, found=found)


def _in_steps(work: _Pass, chunk: _Chunk, span: slice) -> _Chunk:
    """The head that a step gives, in place of the one that was merged, which it is no further from than it must."""
    cohort, index = work.merging.cohort, chunk.index
    dtype = cohort.schema.tensors[index].dtype
    left = _before(work.merging, index, span, work.merging.job.state_parts - 1)
    wanted = decode(chunk.head, dtype)
    made = stepped(cohort.base_values(index, span), wanted, left, dtype)
    state = made.left
    if chunk.state is not None:
        state = np.empty(2 * len(made.left), made.left.dtype)
        state[0::2], state[1::2] = chunk.state, made.left
    return replace(chunk, head=made.head, state=state, numbers=made.numbers, scales=made.scales)


def _merge_narrow(work: _Pass, index: int, span: slice) -> _Chunk | None:
    """Without decoding. The same bits: a mean differs by the sign of zeros only, which is dropped.

    None where that does not do; also where something is not finite, so that who decodes it names it.
    """
    cohort, plan = work.merging.cohort, work.plan
    clips = any(clip < FULL for clip in plan.clips)
    narrow = None if plan.outer is not None or clips else cohort.narrow(index, span)
    if narrow is None:
        return None
    base, rows = narrow
    dtype = cohort.schema.tensors[index].dtype
    found: features.Found = []
    with np.errstate(all="ignore"):  # what is not finite is found below
        if work.survey is not None:
            found = work.survey.look(index, base, rows)
            if not all(math.isfinite(peak) for peak, _ in found):
                return None
        if plan.rule == "trimmed_mean":
            # What is not finite may be cut off, and ordering tells the two zeros apart.
            if not all(finite(row, dtype) for row in rows):
                return None
            rows = [canonical_zero(row, dtype) for row in rows]
            merged = trimmed_mean(rows, plan.cut, wide=False)
        else:
            merged = weighted_mean(rows, plan.weights, wide=False)
        head = encode(merged, dtype)
    # A mean of finite numbers is finite, and of any other is not.
    return _Chunk(index, head, found=found) if finite(head, dtype) else None


def _before(merging: _Merge, index: int, span: slice, part: int) -> Values:
    """A part of the state before: the velocity first, what the head's codec lost last."""
    if merging.before is None:
        return np.zeros(span.stop - span.start)
    parts = merging.job.state_parts
    whole = slice(span.start * parts, span.stop * parts)
    # The state holds the trained tensors only.
    return merging.before.values(merging.cohort.trained.index(index), whole)[part::parts]


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


def _plan(job: MergeJob, squares: Sequence[int] | None) -> _Plan:
    """Without squared norms, as if no update were longer than the others."""
    count = len(job.inputs)
    weights = tuple(entry.weight for entry in job.inputs)
    clips = (FULL,) * count
    rule = job.rule.name
    if rule == "trimmed_mean" and count < TRIMMED_COHORT_MIN:
        rule = "mean"
    if rule == "norm_clipped_mean" and squares is not None:
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
    if job.outer is not None and not job.state_parts:
        raise LocalError(f"outer {job.optimizer.name} keeps no state, but the job names one")
    if job.exponents is not None:
        _check_exponents(job.exponents, len(job.schema.tensors))


def _check_exponents(exponents: tuple[int, ...], tensors: int) -> None:
    if len(exponents) != tensors:
        raise RemoteError(f"{len(exponents)} certified exponents for {tensors} tensors")
    for exponent in exponents:
        if not features.EXPONENT_MIN <= exponent <= features.EXPONENT_MAX:
            raise RemoteError(f"certified exponent {exponent} is out of range")
