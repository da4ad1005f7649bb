"""Heads and updates as files, to and from torch tensors."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import RemoteError, WorkloadError
from p2pd.tensors.files import TensorFile, write_artifact
from p2pd.tensors.formats import Stored
from p2pd.workload.state import DTYPES, load_into, schema_of


def load_head(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Puts a head that `p2pd heads export` wrote into a model of the same make, buffers as well.

    Raises:
        WorkloadError: it is the head of another model; the message names the tensor.
        StoreError: the file cannot be read.
    """
    load_into(model, read_head(Path(path), schema_of(model)))


def read_head(path: Path, schema: Schema) -> dict[str, torch.Tensor]:
    """The tensors of a head, mapped from its file: to be copied, never written to.

    Raises:
        WorkloadError: it is no head of this workload; the message names the tensor.
    """
    try:
        file = TensorFile(path)
        file.require(schema)
    except RemoteError as error:
        raise WorkloadError(f"the head does not fit the model: {error}") from error
    return {
        tensor.name: to_torch(file.stored(index), tensor)
        for index, tensor in enumerate(file.tensors)
    }


def write_state(
    path: Path, kind: ArtifactKind, schema: Schema, state: Mapping[str, torch.Tensor]
) -> Manifest:
    """Writes the tensors that schema names, as they are.

    Raises:
        WorkloadError: some values are not finite.
        StoreError: the disk is full or failing.
    """
    return write_artifact(path, kind, schema, arrays_of(state))


def arrays_of(state: Mapping[str, torch.Tensor]) -> dict[str, Stored]:
    """The tensors as a file holds them.

    Raises:
        WorkloadError: some values are not finite.
    """
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise WorkloadError(f"{name} has values that are not finite: lower the learning rate")
    return {name: to_numpy(tensor) for name, tensor in state.items()}


def to_torch(stored: Stored, tensor: TensorSpec) -> torch.Tensor:
    dtype = DTYPES[tensor.dtype]
    storage = stored.view(np.int16) if dtype == torch.bfloat16 else stored
    with warnings.catch_warnings():
        # The file is mapped read-only, as it should be.
        warnings.filterwarnings("ignore", message="The given (NumPy array|buffer) is not writable")
        flat = torch.from_numpy(storage)
    return flat.view(dtype).reshape(tensor.shape)


def to_numpy(tensor: torch.Tensor) -> Stored:
    flat = tensor.detach().cpu().contiguous()
    if flat.dtype == torch.bfloat16:
        bits: Stored = flat.view(torch.int16).numpy().view(np.uint16)
        return bits
    array: Stored = flat.numpy()
    return array
