"""An ordinary PyTorch training set-up as a workload.

A batch is a pair (inputs, targets): inputs go to the model, its outputs and the targets to the loss; or
it is whatever the user's own step takes. Units: samples, optimizer steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from p2pd.core.work import Schema
from p2pd.workload.contract import Evaluated, Lease, Pause, Trained, Workload
from p2pd.workload.forward import Forward
from p2pd.workload.judging import Judge
from p2pd.workload.learner import Learner
from p2pd.workload.loaders import Samples, samples_of
from p2pd.workload.loop import Loop
from p2pd.workload.metrics import Metric, metric_of
from p2pd.workload.optimizers import load_optimizer
from p2pd.workload.pipelines import Indexed, Pipeline
from p2pd.workload.seeding import seed_all
from p2pd.workload.state import load_into, schema_of, state_of


def from_loaders(
    learner: Learner,
    train_loader: DataLoader[Any],
    valid_loader: DataLoader[Any],
    metric: str | Metric = "accuracy",
    higher_is_better: bool = True,
    data: Pipeline | None = None,
) -> Workload:
    """A workload of an existing training set-up, all parts of which stay as they are.

    metric is "accuracy", "loss", or a function (outputs, targets) -> (sum, count), which with a step of
    one's own gets (model, batch). data says what the samples are; left out, a Generated data set speaks
    for itself, and of others nothing is said.

    Raises:
        WorkloadError: a part cannot serve here; the message says what to do.
    """
    name, function = metric_of(metric, higher_is_better=higher_is_better)
    workload = _PlainWorkload(
        learner,
        samples_of(train_loader, "train_loader"),
        samples_of(valid_loader, "valid_loader"),
        function,
    )
    workload.metric, workload.higher_is_better = name, higher_is_better
    given = train_loader.dataset
    workload.data = data or (given if isinstance(given, Pipeline) else Indexed())
    return workload


class _PlainWorkload(Workload):
    data: Pipeline

    def __init__(
        self, learner: Learner, train: Samples, valid: Samples, metric: Metric | None
    ) -> None:
        self._learner = learner
        self._train, self._valid = train, valid
        self._forward = Forward(learner)
        self._loop = Loop(learner, self._forward)
        self._judge = Judge(learner, self._forward, valid, metric)

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
        # The schedulers follow the certified progress, wherever this process was.
        return {
            "optimizers": [optimizer.state_dict() for optimizer in self._learner.optimizers],
            "scaler": self._forward.precision.scaler.state_dict(),
        }

    def load_inner_state(self, state: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self._learner.optimizers, state["optimizers"], strict=True):
            load_optimizer(optimizer, saved)
        self._forward.precision.scaler.load_state_dict(state["scaler"])

    def train(self, lease: Lease) -> Trained:
        seed_all(lease.seed)
        plan = self._train.plan(lease)
        return self._loop.run(lease, self._train.load(plan, lease.seed))

    def evaluate(self, pause: Pause) -> Evaluated:
        return self._judge.evaluate(pause)

    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        return self._judge.sample_losses(samples, pause)
