"""Writes a trainer's update, and carries what its codec lost over to the next one (error feedback).

The residual of a tensor is what its steps were, with the residual before, less what the decoded update
stands for. It is float32: an error of an error.
Source: Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., arXiv 1901.09847.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.codecs import is_trained
from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors.blocks import QUANTIZERS
from p2pd.tensors.codecs import Codec
from p2pd.tensors.files import TensorFile, write_artifact
from p2pd.tensors.formats import FORMATS, Stored, Values, decode, encode
from p2pd.tensors.layout import quoted

WHOLE = slice(None)


@dataclass(frozen=True, slots=True)
class Trained:
    """What a lease made of a model, by name of tensor and in the model's own types."""

    end: Mapping[str, Stored]
    start: Mapping[str, Stored] | None
    """None where it started from the base itself."""


def residual_schema(codec: Codec) -> Schema:
    """Of the tensors that lose something on the way."""
    return Schema(
        tuple(
            TensorSpec(tensor.name, "F32", tensor.shape, False)
            for tensor, place in zip(codec.model.tensors, codec.places, strict=True)
            if place.steps
        )
    )


def write_update(
    path: Path,
    codec: Codec,
    base: TensorFile,
    trained: Trained,
    residual: Mapping[str, Values] | None,
) -> tuple[Manifest, dict[str, Stored]]:
    """Writes base plus the steps of a lease to path; also returns the residual for the next update.

    Raises:
        RemoteError: values, or steps, that the codec cannot hold: they are not finite.
        StoreError: the disk is full or failing.
    """
    parts: dict[str, Stored] = {}
    left: dict[str, Stored] = {}
    shapes = {tensor.name: tensor.shape for tensor in codec.file.tensors}
    for index, tensor in enumerate(codec.model.tensors):
        end = np.asarray(trained.end[tensor.name])
        if not codec.places[index].steps:
            parts[tensor.name] = _values(tensor, base, index, trained)
            continue
        origin = base.values(index, WHOLE)
        start = origin if trained.start is None else _flat(trained.start[tensor.name], tensor)
        steps = _flat(end, tensor) - start
        if residual is not None:
            steps = steps + residual[tensor.name].reshape(-1)
        if not np.isfinite(steps).all():
            raise RemoteError(f"tensor {quoted(tensor.name)} has steps that are not finite")
        stored, decoded = QUANTIZERS[codec.name](steps)
        for suffix, array in stored.items():
            name = tensor.name + suffix
            parts[name] = array.reshape(shapes[name])
        became = decode(encode(origin + decoded, tensor.dtype), tensor.dtype)
        left[tensor.name] = (steps - (became - origin)).astype(np.float32).reshape(tensor.shape)
    # It counts for one window: a power cut costs no more than that.
    return write_artifact(path, ArtifactKind.UPDATE, codec.file, parts, synced=False), left


def _values(tensor: TensorSpec, base: TensorFile, index: int, trained: Trained) -> Stored:
    end = trained.end[tensor.name]
    if trained.start is None or not is_trained(tensor):
        return end
    steps = _flat(end, tensor) - _flat(trained.start[tensor.name], tensor)
    with np.errstate(all="ignore"):  # what overflows is found below
        stored = encode(base.values(index, WHOLE) + steps, tensor.dtype)
    if not np.isfinite(decode(stored, tensor.dtype)).all():
        raise RemoteError(f"tensor {quoted(tensor.name)} has values that are not finite")
    return stored.reshape(tensor.shape)


def _flat(array: Stored, tensor: TensorSpec) -> Values:
    if array.dtype != FORMATS[tensor.dtype].storage:
        raise LocalError(f"tensor {tensor.name!r} is {array.dtype}, the schema says {tensor.dtype}")
    return decode(np.ascontiguousarray(array).reshape(-1), tensor.dtype)
