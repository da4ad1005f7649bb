from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn

from p2pd.workload.devices.ranks import Strategy
from p2pd.workload.devices.strategies import STRATEGIES
from tests.workload.devices.documented import own_strategy
from tests.workload.devices.twins import Twins


class Sharing(Twins):
    """Remembers what the main worker gave to the others."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__(rank)
        self.shared: list[torch.Tensor] = []

    def share(self, tensors: Iterable[torch.Tensor]) -> None:
        self.shared += tensors


def stepped(strategy: Strategy, ranks: Twins) -> tuple[nn.Linear, list[str]]:
    """A model after one step, and whether its optimizer took it."""
    model = nn.Linear(2, 1, bias=False)
    took: list[str] = []
    with strategy.attach(list(model.parameters()), ranks) as replica:
        replica.last_backward()
        torch.autograd.backward(model(torch.tensor([[1.0, 3.0]])).sum())
        replica.reduce()
        replica.step(lambda: took.append("step"))
    return model, took


@pytest.mark.parametrize("name", ["ddp", "multi"])
@pytest.mark.parametrize("rank", [0, 1])
def test_gradients_are_those_of_all_workers(name: str, rank: int) -> None:
    model, _ = stepped(STRATEGIES[name], Sharing(rank))
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[2.0, 6.0]]


def test_by_ddp_each_worker_takes_the_step_itself() -> None:
    for rank in (0, 1):
        ranks = Sharing(rank)
        _, took = stepped(STRATEGIES["ddp"], ranks)
        assert took == ["step"]
        assert ranks.shared == []


def test_by_multi_the_main_worker_takes_it_and_gives_its_parameters_to_the_others() -> None:
    for rank, expected in ((0, ["step"]), (1, [])):
        ranks = Sharing(rank)
        model, took = stepped(STRATEGIES["multi"], ranks)
        assert took == expected
        assert [one is model.weight for one in ranks.shared] == [True]


def test_with_one_worker_nothing_is_sent() -> None:
    ranks = Sharing()
    model, took = stepped(STRATEGIES["single"], ranks)
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[1.0, 3.0]]
    assert took == ["step"]
    assert ranks.sent == []


def test_the_strategy_that_the_manual_shows_sends_half_the_bytes() -> None:
    shown: dict[str, Any] = {}
    exec(own_strategy(), shown)
    ranks = Sharing()
    model, took = stepped(shown["InHalf"](), ranks)
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[2.0, 6.0]]
    assert ranks.sent == [2]
    assert took == ["step"]
