import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from p2pd.core.codecs import element_count
from p2pd.core.work import TensorSpec
from p2pd.errors import WorkloadError
from p2pd.tensors.files import TensorFile
from p2pd.tensors.layout import layout_of
from p2pd.workload.heads import to_numpy
from p2pd.workload.protocol import BuildCall, InitialCall
from p2pd.workload.session import Session
from p2pd.workload.state import DTYPE_NAMES, aliases_of

WORKLOAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders

def build(config):
    model = torch.nn.Sequential()
    model.embedding = torch.nn.Embedding(3, 2)
    model.norm = torch.nn.BatchNorm1d(2)
    model.output = torch.nn.Linear(2, 3, bias=False)
    model.output.weight = model.embedding.weight
    loader = DataLoader(TensorDataset(torch.zeros(2, 1), torch.zeros(2)), batch_size=1)
    return from_loaders(Learner(model, torch.optim.SGD(model.parameters(), lr=0.1)), loader, loader)
"""
GIVEN = {
    "embedding.weight": torch.arange(6.0).reshape(3, 2),
    "norm.bias": torch.tensor([1.0, 2.0]),
    "norm.num_batches_tracked": torch.tensor(7),
    "norm.running_mean": torch.tensor([0.5, -0.5]),
    "norm.running_var": torch.tensor([4.0, 5.0]),
    "norm.weight": torch.tensor([-1.0, 3.0]),
}
State = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    directory = tmp_path_factory.mktemp("tied")
    (directory / "tied_workload.py").write_text(WORKLOAD)
    sys.path.insert(0, str(directory))
    yield Session(BuildCall("tied_workload", "{}", 1))
    sys.path.remove(str(directory))


def save(path: Path, state: State) -> Path:
    """As safetensors writes a state_dict, names in any order."""
    specs = [
        TensorSpec(name, DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), False)
        for name, tensor in state.items()
    ]
    assert all(element_count(one) for one in specs)
    data = b"".join(to_numpy(tensor).tobytes() for tensor in state.values())
    path.write_bytes(layout_of(specs).header + data)
    return path


def begin(session: Session, path: Path) -> dict[str, list[float]]:
    output = path.with_name("head")
    session.initial(InitialCall(os.fsencode(output), os.fsencode(path)))
    head = TensorFile(output)
    return {
        tensor.name: np.ravel(head.stored(index)).tolist()
        for index, tensor in enumerate(head.tensors)
    }


def flat(state: State) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in state.items()}


def test_the_first_head_is_what_was_given(session: Session, tmp_path: Path) -> None:
    state = dict(reversed(GIVEN.items()))
    assert begin(session, save(tmp_path / "given", state)) == flat(GIVEN)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"module.{name}",
        lambda name: f"module._orig_mod.{name}",
        lambda name: name.replace("embedding", "output"),
    ],
)
def test_names_are_those_of_the_models_own_state(
    session: Session, tmp_path: Path, rename: Callable[[str], str]
) -> None:
    state = {rename(name): tensor for name, tensor in GIVEN.items()}
    assert begin(session, save(tmp_path / "given", state)) == flat(GIVEN)


def test_tied_weights_may_come_twice_if_they_are_the_same(session: Session, tmp_path: Path) -> None:
    both = {**GIVEN, "output.weight": GIVEN["embedding.weight"]}
    assert begin(session, save(tmp_path / "given", both)) == flat(GIVEN)
    both["output.weight"] = torch.zeros(3, 2)
    with pytest.raises(
        WorkloadError, match=r"embedding\.weight and output\.weight differ, and are tied"
    ):
        begin(session, save(tmp_path / "given", both))


def without(name: str) -> State:
    return {key: tensor for key, tensor in GIVEN.items() if key != name}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (without("norm.bias"), "not the weights of this workload: tensor 'norm.bias' is missing"),
        ({**GIVEN, "more": torch.zeros(1)}, "tensor 'more' is not in the schema"),
        (
            {**GIVEN, "norm.bias": torch.zeros(3)},
            "tensor 'norm.bias' has shape [3], not [2]",
        ),
        (
            {**GIVEN, "norm.bias": torch.zeros(2, dtype=torch.float16)},
            "tensor 'norm.bias' is F16, the schema says F32",
        ),
        (
            {**GIVEN, "norm.bias": torch.tensor([0.0, torch.nan])},
            "norm.bias has values that are not finite",
        ),
        (
            {**GIVEN, "module.norm.bias": torch.zeros(2)},
            "norm.bias and module.norm.bias differ, and are one name in the model",
        ),
    ],
)
def test_other_weights_are_refused_by_the_name_of_the_tensor(
    session: Session, tmp_path: Path, state: State, said: str
) -> None:
    with pytest.raises(WorkloadError) as caught:
        begin(session, save(tmp_path / "given", state))
    assert said in str(caught.value)


def test_a_file_cut_short_is_refused(session: Session, tmp_path: Path) -> None:
    path = save(tmp_path / "given", GIVEN)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WorkloadError, match="cut short"):
        begin(session, path)


def test_aliases_are_the_names_that_tying_drops() -> None:
    tied = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert aliases_of(tied) == {"1.weight": "0.weight"}
    assert aliases_of(torch.nn.Linear(1, 1)) == {}
