"""What all workers start a lease from: the main one's model, and what it keeps from lease to lease.

The latter is a tree (p2pd.workload.trees): its shape goes first, then its tensors from device to device.
"""

from dataclasses import dataclass

import torch

from p2pd.core.encoding import decode, encode
from p2pd.errors import WorkloadError
from p2pd.workload import answers
from p2pd.workload.contract import Workload
from p2pd.workload.devices.messages import FellowBuilt
from p2pd.workload.devices.ranks import Ranks
from p2pd.workload.state import DTYPE_NAMES, DTYPES
from p2pd.workload.trees import grown, packed


@dataclass(frozen=True, slots=True)
class _Leaf:
    dtype: str
    shape: tuple[int, ...]
    device: str
    """Its kind: cpu or cuda."""


@dataclass(frozen=True, slots=True)
class _Shape:
    tree: bytes
    leaves: tuple[_Leaf, ...]


def built_of(workload: Workload) -> FellowBuilt:
    """What must be the same in every worker; and where its model is."""
    state = workload.state()
    device = next((str(tensor.device) for tensor in state.values()), "cpu")
    return FellowBuilt(answers.schema_of(workload).id, answers.described(workload)[0], device)


def share(workload: Workload, ranks: Ranks) -> None:
    """Gives every worker the main one's model and inner state."""
    _share_model(workload, ranks)
    if ranks.rank == 0:
        _give_inner(workload, ranks)
    else:
        _take_inner(workload, ranks)


def _share_model(workload: Workload, ranks: Ranks) -> None:
    state = workload.state()
    names = sorted(state)
    tensors = [state[name].detach() for name in names]
    if ranks.rank:
        tensors = [
            tensor.clone() for tensor in tensors
        ]  # they may be the live ones, only to be read
    ranks.share(tensors)
    if ranks.rank:
        workload.load({name: tensor.cpu() for name, tensor in zip(names, tensors, strict=True)})


def _give_inner(workload: Workload, ranks: Ranks) -> None:
    try:
        tree, tensors = packed(workload.inner_state())
    except (
        WorkloadError
    ):  # it is not saved either, which is said there: each worker goes on with its own
        ranks.told([0])
        return
    leaves = (_Leaf(DTYPE_NAMES[one.dtype], tuple(one.shape), one.device.type) for one in tensors)
    shape = torch.frombuffer(bytearray(encode(_Shape(tree, tuple(leaves)))), dtype=torch.uint8)
    ranks.told([shape.numel()])
    ranks.share([shape])
    ranks.share(tensors)


def _take_inner(workload: Workload, ranks: Ranks) -> None:
    size = int(ranks.told([0])[0])
    if not size:
        return
    data = torch.empty(size, dtype=torch.uint8)
    ranks.share([data])
    shape = decode(_Shape, data.numpy().tobytes(), limit_bytes=size)
    tensors = [
        torch.empty(leaf.shape, dtype=DTYPES[leaf.dtype], device=leaf.device)
        for leaf in shape.leaves
    ]
    ranks.share(tensors)
    tree = grown(shape.tree, [tensor.cpu() for tensor in tensors])
    workload.load_inner_state(tree)  # type: ignore[arg-type]  # a mapping, as the main worker's is
