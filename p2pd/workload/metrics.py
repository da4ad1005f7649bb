"""What an evaluation measures: each metric gives a sum and a count, so that batches add up."""

from collections.abc import Callable
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


BUILT_IN: dict[str, Metric | None] = {"accuracy": accuracy, "loss": None}
"""None: the mean loss, which is measured anyway."""


def metric_of(metric: str | Metric, *, higher_is_better: bool) -> tuple[str, Metric | None]:
    """The name to show and the function.

    Raises:
        WorkloadError: no such metric, or the wrong direction.
    """
    if not isinstance(metric, str):
        return getattr(metric, "__name__", type(metric).__name__), metric
    if metric not in BUILT_IN:
        raise WorkloadError(
            f"metric {metric!r} is none of {', '.join(BUILT_IN)}: pass a function"
            " (outputs, targets) -> (sum, count)"
        )
    if metric == "loss" and higher_is_better:
        raise WorkloadError('metric "loss" is better when lower: pass higher_is_better=False')
    return metric, BUILT_IN[metric]
