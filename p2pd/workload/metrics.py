"""What an evaluation measures: each metric gives a sum and a count, so that batches add up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from p2pd.errors import WorkloadError

Metric = Callable[[Any, Any], tuple[float, int]]
"""Of the model's outputs and the targets of one batch."""


def accuracy(outputs: object, targets: object) -> tuple[float, int]:
    """Right classes, where outputs hold scores with the classes in their second dimension.

    Raises:
        WorkloadError: they do not.
    """
    if not (
        isinstance(outputs, torch.Tensor)
        and isinstance(targets, torch.Tensor)
        and outputs.ndim == targets.ndim + 1
    ):
        raise WorkloadError(
            'metric "accuracy" needs a tensor of class scores per target: pass a function'
            " (outputs, targets) -> (sum, count) as metric instead"
        )
    return float((outputs.argmax(dim=1) == targets).sum().item()), targets.numel()


BUILT_IN: dict[str, Metric] = {"accuracy": accuracy}
"""Besides the mean loss, which is measured anyway."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What an evaluation measures: by name, the decisive one first."""

    decisive: str
    functions: Mapping[str, Metric]
    """All but the mean loss."""


def measures_of(
    metric: str | Metric, others: Mapping[str, Metric], *, higher_is_better: bool
) -> Measures:
    """metric is decisive: a function, or the name of one of the others or of a built-in one.

    Raises:
        WorkloadError: no such metric, or the wrong direction.
    """
    if not isinstance(metric, str):
        name = getattr(metric, "__name__", type(metric).__name__)
        return Measures(name, {name: metric, **others})
    if metric == "loss" and metric not in others:
        if higher_is_better:
            raise WorkloadError('metric "loss" is better when lower: pass higher_is_better=False')
        return Measures(metric, others)
    known = {**BUILT_IN, **others}
    if metric not in known:
        raise WorkloadError(
            f"metric {metric!r} is none of {', '.join((*known, 'loss'))}: pass a function"
            " (outputs, targets) -> (sum, count)"
        )
    return Measures(metric, {metric: known[metric], **others})
