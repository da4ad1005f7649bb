from collections import OrderedDict

import pytest
import torch
from torch import nn

from p2pd.errors import WorkloadError
from p2pd.workload.state import canonical_name, load_into, schema_of, state_of


def small() -> nn.Module:
    return nn.Sequential(OrderedDict(first=nn.Linear(3, 2), norm=nn.BatchNorm1d(2)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(4, 6, bias=False)
        self.embedding = nn.Embedding(6, 4)
        self.output.weight = self.embedding.weight


class Wrapper(nn.Module):
    """Names its content as DistributedDataParallel does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("module.first.weight", "first.weight"),
        ("module.module.first.weight", "first.weight"),
        ("_orig_mod.first.weight", "first.weight"),
        ("module._orig_mod.first.weight", "first.weight"),
        ("block._orig_mod.weight", "block.weight"),
        ("block.module.weight", "block.module.weight"),
        ("module", "module"),
    ],
)
def test_names_lose_what_wrappers_add(name: str, canonical: str) -> None:
    assert canonical_name(name) == canonical


def test_a_wrapped_model_has_the_schema_of_the_model_itself() -> None:
    compiled = torch.compile(small(), backend="eager")
    assert isinstance(compiled, nn.Module)
    assert schema_of(Wrapper(small())) == schema_of(compiled) == schema_of(small())


def test_the_schema_lists_parameters_and_all_buffers_of_batch_norm_by_name() -> None:
    found = [(t.name, t.dtype, t.shape, t.buffer) for t in schema_of(small()).tensors]
    assert found == [
        ("first.bias", "F32", (2,), False),
        ("first.weight", "F32", (2, 3), False),
        ("norm.bias", "F32", (2,), False),
        ("norm.num_batches_tracked", "I64", (), True),
        ("norm.running_mean", "F32", (2,), True),
        ("norm.running_var", "F32", (2,), True),
        ("norm.weight", "F32", (2,), False),
    ]


def test_tied_weights_count_once_and_stay_tied_after_a_load() -> None:
    model = Tied()
    assert [tensor.name for tensor in schema_of(model).tensors] == ["embedding.weight"]
    load_into(model, {"embedding.weight": torch.full((6, 4), 5.0)})
    assert model.output.weight is model.embedding.weight
    assert bool((model.output.weight == 5.0).all())


def test_a_load_keeps_the_tensors_that_the_optimizer_holds() -> None:
    model, other = small(), small()
    before = dict(model.named_parameters())
    load_into(model, state_of(other))
    assert all(value is before[name] for name, value in model.named_parameters())
    assert all(torch.equal(state_of(model)[name], value) for name, value in state_of(other).items())


def test_a_load_that_does_not_fit_is_refused_by_name() -> None:
    model = small()
    state = dict(state_of(small()))
    with pytest.raises(WorkloadError, match=r"lacks norm\.weight"):
        load_into(model, {name: value for name, value in state.items() if name != "norm.weight"})
    with pytest.raises(WorkloadError, match=r"the model has no extra"):
        load_into(model, state | {"extra": torch.zeros(1)})
    with pytest.raises(WorkloadError, match=r"first\.bias is torch\.float32 \(3,\)"):
        load_into(model, state | {"first.bias": torch.zeros(3)})


def test_two_names_that_become_one_are_refused() -> None:
    model = nn.Module()
    model.register_parameter("weight", nn.Parameter(torch.zeros(1)))
    model.add_module("module", nn.Linear(1, 1))
    with pytest.raises(WorkloadError, match="both called weight"):
        state_of(model)


def test_a_type_that_no_head_can_hold_is_refused_by_name() -> None:
    model = nn.Module()
    model.register_buffer("spectrum", torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(WorkloadError, match="spectrum is complex64"):
        schema_of(model)
