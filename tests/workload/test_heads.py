import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

import p2pd
from p2pd.core.artifact import ArtifactKind
from p2pd.errors import StoreError, WorkloadError
from p2pd.workload.heads import write_state
from p2pd.workload.state import schema_of, state_of

SCRIPT = Path(__file__).parents[2] / "scripts" / "load_head.py"


def model(seed: int) -> nn.Module:
    """With integer and floating buffers, and one of its layers in bfloat16."""
    torch.manual_seed(seed)
    norm = nn.BatchNorm1d(4)
    norm.get_buffer("num_batches_tracked").fill_(seed)
    return nn.Sequential(nn.Linear(3, 4), norm, nn.Linear(4, 2).bfloat16())


@pytest.fixture
def head(tmp_path: Path) -> Path:
    path = tmp_path / "head.safetensors"
    write_state(path, ArtifactKind.HEAD, schema_of(model(7)), state_of(model(7)))
    return path


def assert_same(mine: nn.Module, other: nn.Module) -> None:
    for name, tensor in other.state_dict().items():
        assert torch.equal(mine.state_dict()[name], tensor), name


def test_an_exported_head_gets_into_a_model_in_one_line(head: Path) -> None:
    mine = model(1)
    p2pd.load_head(mine, head)
    assert_same(mine, model(7))


def test_the_script_without_p2pd_reads_each_tensor_in_its_own_type(head: Path) -> None:
    spec = importlib.util.spec_from_file_location("load_head", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    mine = model(1)
    mine.load_state_dict(script.read_tensors(head))
    assert_same(mine, model(7))


def test_a_head_of_another_model_is_refused_by_the_name_of_the_tensor(head: Path) -> None:
    with pytest.raises(WorkloadError, match=r"the head does not fit the model: .*0\.bias"):
        p2pd.load_head(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(4), nn.Linear(4, 2)), head)


def test_a_head_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing\.safetensors"):
        p2pd.load_head(model(1), tmp_path / "nothing.safetensors")
