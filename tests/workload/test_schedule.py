from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from torch.optim.swa_utils import SWALR

from p2pd.errors import WorkloadError
from p2pd.workload.schedule import Schedule

Make = Callable[[Optimizer], LRScheduler]

MAKERS: dict[str, Make] = {
    "step": lambda optimizer: StepLR(optimizer, step_size=3, gamma=0.5),
    "cosine": lambda optimizer: CosineAnnealingLR(optimizer, T_max=20),
    "lambda": lambda optimizer: LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    "one cycle": lambda optimizer: OneCycleLR(optimizer, max_lr=1.0, total_steps=30),
    "constant": lambda optimizer: ConstantLR(optimizer, 0.5, total_iters=4),
    "linear": lambda optimizer: LinearLR(optimizer, 0.1, total_iters=7),
    "exponential": lambda optimizer: ExponentialLR(optimizer, 0.9),
    "multistep": lambda optimizer: MultiStepLR(optimizer, [3, 8]),
    "polynomial": lambda optimizer: PolynomialLR(optimizer, total_iters=15, power=2.0),
    "multiplicative": lambda optimizer: MultiplicativeLR(optimizer, lambda step: 0.95),
    "warm restarts": lambda optimizer: CosineAnnealingWarmRestarts(optimizer, 4, 2),
    "cyclic": lambda optimizer: CyclicLR(optimizer, 0.01, 0.1, 4, cycle_momentum=False),
    "weight averaging": lambda optimizer: SWALR(optimizer, 0.02, anneal_epochs=6),
    "chained": lambda optimizer: ChainedScheduler(
        [LinearLR(optimizer, 0.1, total_iters=5), ExponentialLR(optimizer, 0.9)], optimizer
    ),
    "sequential": lambda optimizer: SequentialLR(
        optimizer,
        [LambdaLR(optimizer, lambda step: (step + 1) / 5), StepLR(optimizer, 2)],
        milestones=[5],
    ),
}


def optimizer() -> AdamW:
    return AdamW([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def rates_of_plain_training(make: Make, steps: int) -> list[tuple[float, float]]:
    user = optimizer()
    scheduler = make(user)
    rates = []
    for _ in range(steps):
        rates.append((user.param_groups[0]["lr"], user.param_groups[0]["betas"][0]))
        user.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step")
def test_after_any_seek_the_rates_are_those_of_plain_training(make: Make) -> None:
    expected = rates_of_plain_training(make, 25)
    user = optimizer()
    schedule = Schedule(user, make(user))
    # Forward, on from where it is, back to just before, back to the start, far forward.
    for start in (4, 6, 5, 0, 17):
        schedule.seek(start)
        for step in range(start, start + 3):
            found = (user.param_groups[0]["lr"], user.param_groups[0]["betas"][0])
            assert found == pytest.approx(expected[step])
            user.step()
            schedule.step()


def test_one_cycle_holds_its_last_rate_when_the_network_goes_on() -> None:
    user = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    schedule = Schedule(user, OneCycleLR(user, max_lr=1.0, total_steps=10))
    schedule.seek(9)
    last = user.param_groups[0]["lr"]
    schedule.seek(500)
    assert user.param_groups[0]["lr"] == last
    assert last < 1e-3


def test_a_scheduler_that_follows_one_nodes_metric_is_refused() -> None:
    user = optimizer()
    with pytest.raises(WorkloadError, match="use a scheduler that counts steps"):
        Schedule(user, ReduceLROnPlateau(user))


def test_no_scheduler_is_a_schedule_too() -> None:
    user = optimizer()
    schedule = Schedule(user, None)
    schedule.seek(7)
    schedule.step()
    assert user.param_groups[0]["lr"] == 0.1
