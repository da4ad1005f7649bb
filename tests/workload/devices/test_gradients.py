from collections.abc import Iterator

import pytest
import torch
from torch import nn

from p2pd.errors import WorkloadError
from p2pd.workload.devices import gradients
from p2pd.workload.devices.gradients import GradientSums
from tests.workload.devices.twins import Twins


@pytest.fixture
def ranks() -> Twins:
    return Twins()


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.fixture
def sums(model: nn.Module, ranks: Twins) -> Iterator[GradientSums]:
    made = GradientSums(model.parameters(), ranks)
    yield made
    made.close()


def backward(model: nn.Module) -> None:
    torch.autograd.backward(model(torch.ones(5, 3)).square().mean())


def gradients_of(model: nn.Module) -> list[torch.Tensor | None]:
    return [None if one.grad is None else one.grad.clone() for one in model.parameters()]


def test_each_gradient_is_the_sum_over_all_workers(model: nn.Module, sums: GradientSums) -> None:
    backward(model)
    alone = gradients_of(model)
    model.zero_grad()
    sums.arm()
    backward(model)
    sums.finish()
    for before, after in zip(alone, gradients_of(model), strict=True):
        assert before is not None
        assert after is not None
        assert torch.equal(2 * before, after)


def test_full_buckets_go_out_while_backward_goes_on_and_the_last_parameters_first(
    model: nn.Module, ranks: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "BUCKET_BYTES", 40)
    sums = GradientSums(model.parameters(), ranks)
    sent_before: list[int] = []
    model[1].register_full_backward_hook(lambda *_: sent_before.extend(ranks.sent))  # type: ignore[index]
    sums.arm()
    backward(model)
    sums.finish()
    sums.close()
    assert sent_before == [
        2 + 8 + 2
    ]  # the last layer: its bias and weight, and whether they have gradients
    assert ranks.sent == [12, 4 + 1, 12 + 1]


def test_nothing_goes_out_before_the_last_backward_pass_of_a_step(
    model: nn.Module, ranks: Twins, sums: GradientSums
) -> None:
    backward(model)
    assert ranks.sent == []
    sums.arm()
    backward(model)
    assert len(ranks.sent) == 1
    sums.finish()


def test_a_worker_without_samples_takes_part_and_gets_the_sums(
    model: nn.Module, ranks: Twins, sums: GradientSums
) -> None:
    model.zero_grad()
    sums.finish()
    assert len(ranks.sent) == 1
    assert gradients_of(model) == [None] * 4  # nobody had any


def test_what_has_no_gradient_anywhere_keeps_none_so_that_no_decay_moves_it(
    model: nn.Module, sums: GradientSums
) -> None:
    sums.arm()
    torch.autograd.backward(model[0](torch.ones(5, 3)).square().mean())  # type: ignore[index]
    sums.finish()
    assert [one is None for one in gradients_of(model)] == [False, False, True, True]


def test_frozen_parameters_are_left_out(ranks: Twins) -> None:
    model = nn.Linear(3, 4)
    model.bias.requires_grad_(False)
    sums = GradientSums(model.parameters(), ranks)
    sums.finish()
    sums.close()
    assert ranks.sent == [12 + 1]


def test_a_parameter_that_gets_two_gradients_in_a_step_is_refused(
    model: nn.Module, sums: GradientSums
) -> None:
    sums.arm()
    backward(model)
    with pytest.raises(WorkloadError, match="got a gradient twice in one backward pass"):
        backward(model)


def test_a_sparse_gradient_is_refused(ranks: Twins) -> None:
    model = nn.Embedding(4, 2, sparse=True)
    sums = GradientSums(model.parameters(), ranks)
    torch.autograd.backward(model(torch.tensor([1])).sum())
    with pytest.raises(WorkloadError, match="build the Embedding with sparse=False"):
        sums.finish()
    sums.close()


def test_parameters_of_different_types_travel_apart(ranks: Twins) -> None:
    model = nn.ModuleList([nn.Linear(2, 1), nn.Linear(2, 1).double()])
    sums = GradientSums(model.parameters(), ranks)
    sums.finish()
    sums.close()
    assert ranks.sent == [3 + 2, 3 + 2]
