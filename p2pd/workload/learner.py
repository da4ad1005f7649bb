"""What a user brings: a model, what trains it, and how. Units: samples, optimizer steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isgeneratorfunction
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from p2pd.core.wording import counted
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Evaluated, Lease, Trained
from p2pd.workload.devices.ranks import Strategy

Loss = Callable[[Any, Any], torch.Tensor]
"""Of the model's outputs and the targets of one batch; the mean over its samples, or as reduction says."""
Step = Callable[[nn.Module, Any], torch.Tensor | Iterator[torch.Tensor]]
"""Of the model and one batch as the loader gives it: the loss, the mean over its samples.

A generator function yields one loss for each optimizer, which has stepped when the generator goes on.
"""


class Callback:
    """Told what happens in training, on the main worker alone; overrides what it wants to know."""

    def lease_started(self, lease: Lease) -> None:
        pass

    def step_done(self, step: int, loss: float) -> None:
        """Number `step` of the whole network's schedule, from 0; the mean loss of its samples."""

    def lease_ended(self, trained: Trained) -> None:
        pass

    def evaluated(self, result: Evaluated) -> None:
        pass

    def stops(self) -> bool:
        """Asked after each step: whether the lease ends here, and what was left of it is not trained on."""
        return False


@dataclass(frozen=True, slots=True)
class Learner:
    model: nn.Module
    optimizer: Optimizer | Sequence[Optimizer]
    scheduler: LRScheduler | Sequence[LRScheduler | None] | None = None
    """One for each optimizer, in their order; it counts optimizer steps."""
    loss: Loss = functional.cross_entropy
    step: Step | None = None
    """In place of loss, for what is no pair (inputs, targets) or has several losses."""
    valid_step: Step | None = None
    """The loss that evaluation measures; left out, step, unless that yields several."""
    accumulate: int = 1
    """Batches to an optimizer step, each weighted by its samples: the step of one larger batch."""
    clip_norm: float | None = None
    """The gradients of an optimizer are scaled down to this norm at most."""
    clip_value: float | None = None
    """Each gradient is cut to this size."""
    precision: str = "f32"
    """What the forward pass computes in: f32 (as the model is), bf16 or fp16, by torch.autocast."""
    compile: bool = False
    """Whether the model goes through torch.compile, which needs a C++ compiler on every node."""
    scheduler_every: int = 1
    """Optimizer steps to a step of the schedulers."""
    hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step of the whole network's schedule, what all param groups are set to from there on."""
    callbacks: Sequence[Callback] = ()
    reduction: str = "mean"
    """What loss and step give for a batch: the mean over its samples, or their sum. Batches and devices add up so."""
    strategy: Strategy | None = None
    """How several devices of a trainer train as one, in place of p2pd's own; see docs/devices.md."""

    def __post_init__(self) -> None:
        """Raises WorkloadError: a part cannot serve here; the message says what to do."""
        counts = {"accumulate": self.accumulate, "scheduler_every": self.scheduler_every}
        for name, count in counts.items():
            if type(count) is not int or count < 1:
                raise WorkloadError(f"{name} must be a whole number of at least 1, got {count!r}")
        for name, most in {"clip_norm": self.clip_norm, "clip_value": self.clip_value}.items():
            if most is not None and not most > 0:
                raise WorkloadError(f"{name} must be positive, got {most!r}")
        if self.reduction not in ("mean", "sum"):
            raise WorkloadError(f"reduction is mean or sum, got {self.reduction!r}")
        if any(isinstance(optimizer, LBFGS) for optimizer in self.optimizers):
            raise WorkloadError("LBFGS computes its own losses: use another, or a p2pd.Workload")
        given = len(self.schedulers)
        if given != len(self.optimizers):
            raise WorkloadError(
                f"{counted(given, 'scheduler')} for {counted(len(self.optimizers), 'optimizer')}:"
                " give one for each, None where there is none"
            )

    def weight(self, samples: int, whole: int) -> float:
        """Of a batch's loss among those that make one step of so many samples, in the gradient."""
        return samples / whole if self.reduction == "mean" else 1.0

    def part(self, samples: int, whole: int) -> float:
        """What a batch's loss is to be multiplied with to be its part of the mean over so many samples."""
        return samples / whole if self.reduction == "mean" else 1 / whole

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        given = self.optimizer
        return (given,) if isinstance(given, Optimizer) else tuple(given)

    @property
    def schedulers(self) -> tuple[LRScheduler | None, ...]:
        given = self.scheduler
        if given is None:
            return (None,) * len(self.optimizers)
        return (given,) if isinstance(given, LRScheduler) else tuple(given)

    @property
    def alternates(self) -> bool:
        """Whether each optimizer has a loss of its own, computed after the one before has stepped."""
        return isgeneratorfunction(self.step)
