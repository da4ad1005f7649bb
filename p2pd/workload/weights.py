"""Weights that a user brings, as a safetensors file of any program, to the tensors of a workload's head."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from p2pd.core.codecs import element_count
from p2pd.core.work import Schema
from p2pd.errors import RemoteError, WorkloadError
from p2pd.tensors.foreign import Entry, entries_of
from p2pd.tensors.formats import FORMATS, Stored
from p2pd.tensors.layout import difference
from p2pd.workload.contract import Workload
from p2pd.workload.heads import to_torch
from p2pd.workload.state import canonical_name


def load_weights(workload: Workload, schema: Schema, path: Path) -> None:
    """Loads a file into a workload, names made canonical as those of a model's own state are.

    Raises:
        WorkloadError: they are not the tensors of this workload, or some are not finite; the message names one.
        StoreError: the file cannot be read.
    """
    try:
        state = _state_of(path, schema, workload.aliases())
    except RemoteError as error:
        raise WorkloadError(f"{path}: {error}") from error
    workload.load(state)
    held = workload.state()
    for name, tensor in state.items():
        if not torch.equal(held[name].cpu(), tensor):
            raise WorkloadError(f"the workload's load does not take {name} as it was given")


def _state_of(path: Path, schema: Schema, aliases: Mapping[str, str]) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = {}
    entries: dict[str, Entry] = {}
    for entry in entries_of(path):
        canonical = canonical_name(entry.tensor.name)
        name = aliases.get(canonical, canonical)
        tensor = to_torch(_read(path, entry), entry.tensor)
        if name in state and not torch.equal(state[name], tensor):
            what = "tied in the model" if name != canonical else "one name in the model"
            raise RemoteError(
                f"{entries[name].tensor.name} and {entry.tensor.name} differ, and are {what}"
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise RemoteError(f"{name} has values that are not finite")
        state[name], entries[name] = tensor, entry
    buffers = {tensor.name: tensor.buffer for tensor in schema.tensors}
    found = [entries[name].named(name, buffer=buffers.get(name, False)) for name in sorted(entries)]
    if (unlike := difference(found, schema)) is not None:
        raise RemoteError(f"not the weights of this workload: {unlike}")
    return state


def _read(path: Path, entry: Entry) -> Stored:
    storage, count = FORMATS[entry.tensor.dtype].storage, element_count(entry.tensor)
    found: Stored = np.fromfile(path, storage, count, offset=entry.start)
    if found.size != count:
        raise RemoteError(f"{entry.tensor.name} was cut short while it was read")
    return found
