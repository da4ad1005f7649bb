"""An ordinary PyTorch training set-up as a workload.

A batch is a pair (inputs, targets). Inputs go to the model, its outputs and targets to the loss.
Units: samples, optimizer steps.
"""

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from p2pd.core.work import Schema
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Evaluated, Lease, Pause, Trained, Workload
from p2pd.workload.loaders import Samples, samples_of
from p2pd.workload.metrics import Metric, metric_of
from p2pd.workload.optimizers import load_optimizer
from p2pd.workload.pipelines import Indexed, Pipeline
from p2pd.workload.schedule import Schedule
from p2pd.workload.state import load_into, schema_of, state_of

Loss = Callable[[Any, Any], torch.Tensor]
"""Of the model's outputs and the targets of one batch; the mean over its samples."""


@dataclass(frozen=True, slots=True)
class Learner:
    model: nn.Module
    optimizer: Optimizer
    scheduler: LRScheduler | None = None
    """Stepped after each optimizer step."""
    loss: Loss = functional.cross_entropy


def from_loaders(
    learner: Learner,
    train_loader: DataLoader[Any],
    valid_loader: DataLoader[Any],
    metric: str | Metric = "accuracy",
    higher_is_better: bool = True,
    data: Pipeline | None = None,
) -> Workload:
    """A workload of an existing training set-up, all parts of which stay as they are.

    metric is "accuracy", "loss", or a function (outputs, targets) -> (sum, count). data says what the
    samples are; left out, a Generated data set speaks for itself, and of others nothing is said.

    Raises:
        WorkloadError: a part cannot serve here; the message says what to do.
    """
    name, function = metric_of(metric, higher_is_better=higher_is_better)
    workload = _LoaderWorkload(
        learner,
        samples_of(train_loader, "train_loader"),
        samples_of(valid_loader, "valid_loader"),
        function,
    )
    workload.metric, workload.higher_is_better = name, higher_is_better
    given = train_loader.dataset
    workload.data = data or (given if isinstance(given, Pipeline) else Indexed())
    return workload


class _LoaderWorkload(Workload):
    data: Pipeline

    def __init__(
        self, learner: Learner, train: Samples, valid: Samples, metric: Metric | None
    ) -> None:
        self._learner = learner
        self._train, self._valid = train, valid
        self._measure = metric
        self._schedule = Schedule(learner.optimizer, learner.scheduler)
        self._device = next((tensor.device for tensor in learner.model.parameters()), None)

    @property
    def pipeline(self) -> Pipeline:
        return self.data

    @property
    def train_samples(self) -> int:
        return len(self._train)

    @property
    def validation_samples(self) -> int:
        return len(self._valid)

    def schema(self) -> Schema:
        return schema_of(self._learner.model)

    def state(self) -> Mapping[str, torch.Tensor]:
        return state_of(self._learner.model)

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        load_into(self._learner.model, state)

    def inner_state(self) -> Mapping[str, Any]:
        # The scheduler follows the certified progress, wherever this process was.
        return {"optimizer": self._learner.optimizer.state_dict()}

    def load_inner_state(self, state: Mapping[str, Any]) -> None:
        load_optimizer(self._learner.optimizer, state["optimizer"])

    def train(self, lease: Lease) -> Trained:
        learner = self._learner
        _seed_all(lease.seed)
        learner.model.train()
        self._schedule.seek(lease.steps)
        loader = self._train.select(lease.samples, lease.seed)
        total, steps = 0.0, 0
        for batch, size in zip(loader, self._train.sizes(len(lease.samples)), strict=True):
            lease.pause()
            outputs, targets = self._forward(batch)
            learner.optimizer.zero_grad()
            loss = learner.loss(outputs, targets)
            value = loss.item()
            if not math.isfinite(value):
                raise WorkloadError(
                    f"the loss is {value} at step {steps + 1} of the lease: lower the learning"
                    " rate, clip gradients, or look at the data"
                )
            torch.autograd.backward(loss)
            learner.optimizer.step()
            self._schedule.step()
            total, steps = total + value * size, steps + 1
        samples = len(lease.samples)
        return Trained(samples, steps, total / samples if samples else 0.0)

    def evaluate(self, pause: Pause) -> Evaluated:
        self._learner.model.eval()
        _seed_all(0)
        places = range(len(self._valid))
        total, score, count = 0.0, 0.0, 0
        with torch.no_grad():
            batches = self._valid.select(places, None)
            for batch, size in zip(batches, self._valid.sizes(len(places)), strict=True):
                pause()
                outputs, targets = self._forward(batch)
                total += self._learner.loss(outputs, targets).item() * size
                if self._measure is not None:
                    part, weight = self._measure(outputs, targets)
                    score, count = score + part, count + weight
        loss = total / len(places)
        if self._measure is None:
            return Evaluated(loss, loss, len(places))
        if count == 0:
            raise WorkloadError(
                f"metric {self.metric} counted nothing on the whole validation set: look at its function"
            )
        return Evaluated(score / count, loss, len(places))

    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        self._learner.model.eval()
        _seed_all(0)
        losses: list[float] = []
        with torch.no_grad():
            batches = self._valid.select(samples, None)
            for batch, size in zip(batches, self._valid.sizes(len(samples)), strict=True):
                pause()
                losses += self._losses(*self._forward(batch), size)
        return losses

    def _losses(self, outputs: object, targets: object, size: int) -> Iterable[float]:
        """One by one through the user's own loss, which may weigh, mask or smooth."""
        if not (_has_rows(outputs, size) and _has_rows(targets, size)):
            raise WorkloadError(
                "the loss of single samples needs outputs and targets that are tensors with"
                " one row per sample: subclass p2pd.Workload"
            )
        return (
            self._learner.loss(outputs[row : row + 1], targets[row : row + 1]).item()
            for row in range(size)
        )

    def _forward(self, batch: object) -> tuple[Any, Any]:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise WorkloadError(
                f"a batch is {type(batch).__name__}, not a pair (inputs, targets):"
                " change the dataset or collate_fn, or subclass p2pd.Workload"
            )
        inputs, targets = (self._place(part) for part in batch)
        return self._learner.model(inputs), targets

    def _place(self, part: object) -> object:
        return part.to(self._device) if isinstance(part, torch.Tensor) else part


def _has_rows(part: object, size: int) -> TypeGuard[torch.Tensor]:
    return isinstance(part, torch.Tensor) and part.shape[:1] == (size,)


def _seed_all(seed: int) -> None:
    """Everything that a dataset, a dropout layer or an augmentation may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
