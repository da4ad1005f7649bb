"""What a workload turned out to be, in words."""

from collections import Counter
from math import prod

from p2pd.cli.revisions import size
from p2pd.core.codecs import CODECS, update_schema
from p2pd.core.wording import counted
from p2pd.core.work import MILLION
from p2pd.daemon.examine import Examined
from p2pd.daemon.publish import ScheduleSettings
from p2pd.tensors.layout import layout_of


def as_json(found: Examined) -> dict[str, object]:
    info, trained, evaluation = found.info, found.trained, found.evaluation
    trainers = ScheduleSettings().max_roster
    updates = update_bytes(found)
    return {
        "source": info.source.hex(),
        "parameters": _elements(found, buffer=False),
        "buffers": _elements(found, buffer=True),
        "tensors": len(info.schema.tensors),
        "dtypes": _dtypes(found),
        "tied": [list(names) for names in found.look.tied],
        "data": info.data.kind,
        "data_descriptor": info.data.descriptor,
        "train_samples": info.train_samples,
        "validation_samples": info.validation_samples,
        "samples": trained.samples,
        "steps": trained.steps,
        "samples_per_s": round(trained.samples / trained.seconds, 3),
        "train_loss": trained.loss / MILLION,
        "metric": info.metric,
        "higher_is_better": info.higher_is_better,
        "first_metric": evaluation.metric / MILLION,
        "first_loss": evaluation.loss / MILLION,
        "figures": {one.name: one.value / MILLION for one in evaluation.figures},
        "evaluate_s": round(found.evaluate_s, 6),
        "update_bytes": updates,
        "window_bytes": {codec: bytes_ * trainers for codec, bytes_ in updates.items()},
        "max_roster": trainers,
        "deterministic": found.same_update,
        "warnings": list(found.warnings),
    }


def update_bytes(found: Examined) -> dict[str, int]:
    """What one update weighs, by codec."""
    model = found.info.schema
    return {codec: layout_of(update_schema(model, codec).tensors).size_bytes for codec in CODECS}


def lines(found: Examined) -> list[str]:
    info, trained, evaluation = found.info, found.trained, found.evaluation
    trainers = ScheduleSettings().max_roster
    updates = update_bytes(found)
    dtypes = ", ".join(f"{dtype} {count:,}" for dtype, count in _dtypes(found).items())
    figures = "".join(f", {one.name} {one.value / MILLION:.4f}" for one in evaluation.figures)
    named = f": {info.data.descriptor}" if info.data.descriptor else ""
    same = (
        "alike to the bit in two processes" if found.same_update else "not alike in two processes"
    )
    return [
        f"source      {info.source.hex()}",
        f"model       {counted(_elements(found, buffer=False), 'parameter', ',')},"
        f" {_elements(found, buffer=True):,} in buffers,"
        f" {counted(len(info.schema.tensors), 'tensor')}: {dtypes}",
        *(f"tied        {' = '.join(names)}" for names in found.look.tied),
        f"data        {info.data.kind}, {counted(info.train_samples, 'sample', ',')} to train on,"
        f" {info.validation_samples:,} to validate on{named}",
        f"training    {counted(trained.samples, 'sample')} in {counted(trained.steps, 'step')},"
        f" {trained.samples / trained.seconds:,.0f} samples/s, {same}",
        f"evaluation  {info.metric} {evaluation.metric / MILLION:.4f}, loss"
        f" {evaluation.loss / MILLION:.4f}{figures}, before any training; the same twice",
        "update      " + ", ".join(f"{codec} {size(n)}" for codec, n in updates.items()),
        f"validator   per height fetches at most {size(updates['f32'] * trainers)} in f32,"
        f" {size(updates['int8'] * trainers)} in int8, from {counted(trainers, 'trainer')}"
        " (schedule.max_roster),",
        f"            and evaluates one merged head, {found.evaluate_s:.3g} s; more where proposals fail",
    ]


def _elements(found: Examined, *, buffer: bool) -> int:
    tensors = found.info.schema.tensors
    return sum(prod(tensor.shape) for tensor in tensors if tensor.buffer == buffer)


def _dtypes(found: Examined) -> dict[str, int]:
    """Elements by type."""
    total: Counter[str] = Counter()
    for tensor in found.info.schema.tensors:
        total[tensor.dtype] += prod(tensor.shape)
    return dict(sorted(total.items()))
