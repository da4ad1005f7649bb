"""A lease shared out between two workers: each sample is one's, and batches stay what they are."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset, IterableDataset

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch
from p2pd.workload.contract import Lease, Trained
from p2pd.workload.devices.ranks import Strategy
from p2pd.workload.devices.strategies import STRATEGIES
from p2pd.workload.flows import Flow
from p2pd.workload.forward import Forward
from p2pd.workload.learner import Callback, Learner
from p2pd.workload.loaders import samples_of
from p2pd.workload.loop import Loop
from tests.workload.devices.twins import Twins

SAMPLES = 15


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index


class Told(IterableDataset[int]):
    def __init__(self) -> None:
        self._places: Sequence[int] = ()

    def __len__(self) -> int:
        return SAMPLES

    def set_lease(self, lease: Lease) -> None:
        self._places = lease.samples

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)


def lease(ranks: Twins) -> Lease:
    return Lease(range(SAMPLES), 0, 3, lambda: None, ranks)


def given(batches: Sequence[Batch]) -> list[list[int]]:
    return [[] if one.content is None else one.content.tolist() for one in batches]


@pytest.mark.parametrize(("streams", "workers"), [(False, 0), (False, 2), (True, 0)])
def test_two_workers_load_what_one_would_each_sample_once(streams: bool, workers: int) -> None:
    dataset = Told() if streams else Numbers()
    loader = DataLoader(dataset, batch_size=7, num_workers=workers)
    source = Flow(loader, "train_loader") if streams else samples_of(loader, "train_loader")
    first, second = (list(source.leased(lease(Twins(rank)))) for rank in (0, 1))
    assert given(first) == [[0, 1, 2, 3], [7, 8, 9, 10], [14]]
    assert given(second) == [[4, 5, 6], [11, 12, 13], []]
    assert [one.whole for one in first] == [one.whole for one in second] == [7, 7, 1]


def test_each_worker_draws_augmentation_and_dropout_of_its_own() -> None:
    samples = samples_of(DataLoader(Numbers(), batch_size=7, shuffle=True), "train_loader")
    drawn = []
    for rank in (0, 1):
        list(samples.leased(lease(Twins(rank))))
        drawn.append(torch.rand(()).item())
    assert drawn[0] != drawn[1]


def test_a_sampler_that_draws_otherwise_in_another_worker_is_told() -> None:
    class Other(Twins):
        def told(self, values: Sequence[float]) -> list[float]:
            return [value + 1 for value in values]

    samples = samples_of(DataLoader(Numbers(), batch_size=7), "train_loader")
    with pytest.raises(WorkloadError, match="the sampler draws something else in each worker"):
        samples.leased(lease(Other(1)))


class Stopping(Callback):
    """Stops after a step, and writes down what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def lease_started(self, lease: Lease) -> None:
        self.heard.append("started")

    def step_done(self, step: int, loss: float) -> None:
        self.heard.append(f"step {step}")

    def lease_ended(self, trained: Trained) -> None:
        self.heard.append("ended")

    def stops(self) -> bool:
        self.heard.append("asked")
        return True


def trained(ranks: Twins, callback: Callback, *parts: int) -> Trained:
    model = nn.Linear(3, 2)
    learner = Learner(model, SGD(model.parameters(), lr=0.1), callbacks=[callback])
    batches = [
        Batch((torch.ones(size, 3), torch.zeros(size, dtype=torch.long)), size, 2 * size)
        for size in parts
    ]
    return Loop(learner, Forward(learner)).run(lease(ranks), batches)


def test_callbacks_are_the_main_workers_and_what_they_say_ends_the_lease_everywhere() -> None:
    class Stopped(Twins):
        def told(self, values: Sequence[float]) -> list[float]:
            return [1.0]  # what the main worker says

    main, other = Stopping(), Stopping()
    result = trained(Twins(), main, 3, 3)
    assert (result.steps, result.samples) == (1, 6)
    assert main.heard == ["started", "step 0", "asked", "ended"]
    assert trained(Stopped(1), other, 3, 3).steps == 1
    assert other.heard == []


def test_workers_whose_batches_differ_are_told() -> None:
    class Uneven(Twins):
        def sums(self, values: Sequence[float]) -> list[float]:
            return [2 * value + 1 for value in values]

    with pytest.raises(WorkloadError, match="the loader gives other batches in each worker"):
        trained(Uneven(), Callback(), 3)


def test_optimizers_that_take_turns_send_what_is_their_own() -> None:
    model = nn.ModuleDict({"first": nn.Linear(3, 4), "second": nn.Linear(4, 2)})
    optimizers = [SGD(one.parameters(), lr=0.1) for one in (model["first"], model["second"])]

    def step(model: nn.Module, batch: torch.Tensor) -> Iterator[torch.Tensor]:
        parts = dict(model.named_children())
        for _ in optimizers:
            yield parts["second"](parts["first"](batch)).square().mean()

    class Summing(Twins):
        @property
        def strategy(self) -> Strategy:
            return STRATEGIES["ddp"]

    ranks = Summing()
    learner = Learner(model, optimizers, step=step, accumulate=2)
    batches = [Batch(torch.ones(3, 3), 3, 6), Batch(None, 0, 1), Batch(torch.ones(3, 3), 3, 6)]
    result = Loop(learner, Forward(learner)).run(lease(ranks), batches)
    assert (result.steps, result.samples) == (2, 13)
    # Once for each step of each: the parameters, and for each whether it has a gradient.
    assert ranks.sent == [16 + 2, 10 + 2] * 2
