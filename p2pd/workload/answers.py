"""What the user's code answers, checked before anything is made of it: a message says what to return.

Units: samples, optimizer steps; losses and metrics are plain floats.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from math import isfinite
from operator import index
from pathlib import Path
from typing import TypeVar

from p2pd.core.wording import counted
from p2pd.core.work import COUNT_MAX, FIGURE_NAME_BYTES, FIGURES_MOST, Schema
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Evaluated, Trained, Workload
from p2pd.workload.pipelines import Pipeline

T = TypeVar("T")


def trained_of(answer: object, leased: int) -> Trained:
    """What train returned for a lease of so many samples."""
    if not isinstance(answer, Trained):
        raise WorkloadError(
            f"train returned {_kind(answer)}: return a Trained of p2pd.workload.contract"
        )
    samples = _whole(answer.samples, "train returned samples")
    if not 0 < samples <= leased:
        raise WorkloadError(
            f"train returned {samples} samples of a lease of {leased}: "
            "return how many it trained on"
        )
    steps = _whole(answer.steps, "train returned steps")
    if not 0 < steps <= samples:
        raise WorkloadError(
            f"train returned {counted(steps, 'step')} for {counted(samples, 'sample')}: "
            "return how many optimizer steps it made, at least 1 and at most one a sample"
        )
    loss = _number(answer.loss, "train returned a loss")
    if not isfinite(loss):
        raise WorkloadError(f"the mean loss of the lease is {loss}: lower the learning rate")
    return Trained(samples, steps, loss)


def evaluated_of(answer: object) -> Evaluated:
    """What evaluate returned; metric and loss may be no finite numbers."""
    if not isinstance(answer, Evaluated):
        raise WorkloadError(
            f"evaluate returned {_kind(answer)}: return an Evaluated of p2pd.workload.contract"
        )
    samples = _whole(answer.samples, "evaluate returned samples")
    if not 0 < samples <= COUNT_MAX:
        raise WorkloadError(f"evaluate returned {samples} samples: return on how many it evaluated")
    metric = _number(answer.metric, "evaluate returned a metric")
    loss = _number(answer.loss, "evaluate returned a loss")
    return Evaluated(metric, loss, samples, _numbers(answer.others, "evaluate returned others"))


def figures_of(others: Mapping[str, float], probes: object) -> dict[str, float]:
    """Further metrics and probes, without those that are no finite numbers."""
    found = _numbers(probes, "probes returned an answer")
    if twice := sorted(others.keys() & found.keys()):
        raise WorkloadError(f"{twice[0]!r} is a metric and a probe: rename one")
    named = {**others, **found}
    if len(named) > FIGURES_MOST or not all(map(_is_name, named)):
        raise WorkloadError(
            f"{len(named)} further metrics and probes: there are at most {FIGURES_MOST}, with names"
            f" of 1 to {FIGURE_NAME_BYTES} bytes that can be printed"
        )
    return {name: value for name, value in named.items() if isfinite(value)}


def losses_of(answer: object, wanted: int) -> list[float]:
    """What sample_losses returned for so many samples; they may be no finite numbers."""
    if not isinstance(answer, Iterable):
        raise WorkloadError(
            f"sample_losses returned {_kind(answer)}: return a list of one loss for each sample"
        )
    losses = [_number(loss, "sample_losses returned a loss") for loss in islice(answer, wanted + 1)]
    if len(losses) != wanted:
        got = f"more than {wanted}" if len(losses) > wanted else str(len(losses))
        raise WorkloadError(
            f"sample_losses returned {got} {'loss' if got == '1' else 'losses'}"
            f" for {counted(wanted, 'sample')}: return one for each"
        )
    return losses


def described(workload: Workload) -> tuple[int, int, str, bool]:
    """train_samples, validation_samples, metric and higher_is_better."""
    return (
        _size(workload.train_samples, "train_samples"),
        _size(workload.validation_samples, "validation_samples"),
        _typed(workload.metric, str, "metric"),
        _typed(workload.higher_is_better, bool, "higher_is_better"),
    )


def schema_of(workload: Workload) -> Schema:
    return _typed(workload.schema(), Schema, "schema()")


def data_of(workload: Workload) -> tuple[str, str, Path | None]:
    """Kind, descriptor and root of the training data."""
    pipeline = workload.pipeline
    if not isinstance(pipeline, Pipeline):
        raise WorkloadError(
            f"pipeline of the workload is {_kind(pipeline)}: it must be a p2pd.Pipeline"
        )
    root = pipeline.local_root()
    return (
        _typed(pipeline.kind(), str, "pipeline.kind()"),
        _typed(pipeline.descriptor(), str, "pipeline.descriptor()"),
        None if root is None else _typed(root, Path, "pipeline.local_root()"),
    )


def _size(answer: object, name: str) -> int:
    samples = _whole(answer, f"{name} of the workload")
    if not 0 < samples <= COUNT_MAX:
        raise WorkloadError(f"{name} of the workload is {samples}: give it samples")
    return samples


def _typed(answer: object, kind: type[T], name: str) -> T:
    if not isinstance(answer, kind):
        raise WorkloadError(
            f"{name} of the workload is {_kind(answer)}: it must be of type {kind.__name__}"
        )
    return answer


def _whole(answer: object, what: str) -> int:
    try:
        return index(answer)  # type: ignore[arg-type]  # whatever counts, numpy's and torch's too
    except TypeError:
        raise WorkloadError(
            f"{what} of type {type(answer).__name__}: it must be a whole number"
        ) from None


def _number(answer: object, what: str) -> float:
    said = f"{what} of type {type(answer).__name__}: it must be one number"
    if isinstance(answer, str | bytes):  # float would read it
        raise WorkloadError(said)
    try:
        return float(answer)  # type: ignore[arg-type]  # as above
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise WorkloadError(said) from None


def _numbers(answer: object, what: str) -> dict[str, float]:
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise WorkloadError(f"{what} of type {type(answer).__name__}: it must be a dict by name")
    return {name: _number(value, f"{what} for {name}") for name, value in answer.items()}


def _is_name(name: str) -> bool:
    return name.isprintable() and 0 < len(name.encode()) <= FIGURE_NAME_BYTES


def _kind(answer: object) -> str:
    return "nothing" if answer is None else f"an object of type {type(answer).__name__}"
