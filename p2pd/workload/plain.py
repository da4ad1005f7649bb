"""An ordinary PyTorch training set-up as a workload.

A batch is a pair (inputs, targets): inputs go to the model, its outputs and the targets to the loss; or
it is whatever the user's own step takes. Units: samples, optimizer steps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from p2pd.core.work import Schema
from p2pd.workload.contract import Evaluated, Lease, Pause, Trained, Workload
from p2pd.workload.flows import Flow, flow_of
from p2pd.workload.forward import Forward
from p2pd.workload.judging import Judge
from p2pd.workload.learner import Learner
from p2pd.workload.loaders import Samples, samples_of
from p2pd.workload.loop import Loop
from p2pd.workload.metrics import Measures, Metric, measures_of
from p2pd.workload.optimizers import load_optimizer
from p2pd.workload.pipelines import Indexed, Pipeline
from p2pd.workload.seeding import seed_all
from p2pd.workload.state import aliases_of, load_into, schema_of, state_of

Probe = Callable[[nn.Module], float]
"""Of the model, with a head in it."""


def from_loaders(  # noqa: PLR0913 - what a workload may consist of
    learner: Learner,
    train_loader: DataLoader[Any],
    valid_loader: DataLoader[Any],
    metric: str | Metric = "accuracy",
    higher_is_better: bool = True,
    data: Pipeline | None = None,
    *,
    metrics: Mapping[str, Metric] | None = None,
    probes: Mapping[str, Probe] | None = None,
) -> Workload:
    """A workload of an existing training set-up, all parts of which stay as they are.

    metric, which decides, is "accuracy", "loss", a function (outputs, targets) -> (sum, count), or the
    name of one of metrics, which are measured as well; with a step of one's own they get (model, batch).
    probes are further numbers, of the model alone. data says what the samples are; left out, a Generated
    or Sharded data set speaks for itself, and of others nothing is said.

    Raises:
        WorkloadError: a part cannot serve here; the message says what to do.
    """
    measures = measures_of(metric, metrics or {}, higher_is_better=higher_is_better)
    dataset = train_loader.dataset
    streams = isinstance(dataset, IterableDataset)
    train = (
        Flow(train_loader, "train_loader") if streams else samples_of(train_loader, "train_loader")
    )
    valid = samples_of(valid_loader, "valid_loader")
    workload = _PlainWorkload(learner, train, valid, measures)
    workload.metric, workload.higher_is_better = measures.decisive, higher_is_better
    spoken = dataset if isinstance(dataset, Pipeline) else None
    workload.data = data or spoken or (flow_of(train_loader) if streams else Indexed())
    workload.numbers = dict(probes or {})
    return workload


class _PlainWorkload(Workload):
    data: Pipeline
    numbers: Mapping[str, Probe]
    divides = True

    def __init__(
        self, learner: Learner, train: Samples | Flow, valid: Samples, measures: Measures
    ) -> None:
        self._learner = learner
        self._train, self._valid, self._measures = train, valid, measures
        self.strategy = learner.strategy
        self._set_up()

    def place(self, device: str) -> None:
        self._learner.model.to(device)
        self._set_up()

    def _set_up(self) -> None:
        """Where the model is now."""
        self._forward = Forward(self._learner)
        self._loop = Loop(self._learner, self._forward)
        self._judge = Judge(self._learner, self._forward, self._valid, self._measures)

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

    def aliases(self) -> Mapping[str, str]:
        return aliases_of(self._learner.model)

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
        return self._loop.run(lease, self._train.leased(lease))

    def evaluate(self, pause: Pause) -> Evaluated:
        return self._judge.evaluate(pause)

    def probes(self, pause: Pause) -> Mapping[str, float]:
        pause()
        self._learner.model.eval()
        seed_all(0)
        with torch.no_grad():
            return {name: probe(self._learner.model) for name, probe in self.numbers.items()}

    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        return self._judge.sample_losses(samples, pause)
