"""Updates written by the revision's codec, with what it lost kept on disk for the next one.

A residual is a file in the trainer's own directory, on stable storage before the update is announced.
One that is older than a few heights is dropped: a trainer that was away goes on from a head that others
have made, and what it lost before is no news to it.
Units: heights of plans.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.work import Schema, TrainJob
from p2pd.errors import RemoteError, WorkloadError
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.files import TensorFile, write_artifact
from p2pd.tensors.formats import Stored, Values
from p2pd.tensors.updates import WHOLE, Trained, residual_schema, write_update
from p2pd.workload.generations import Generations
from p2pd.workload.heads import arrays_of

KIND = "residual"
KEPT = 2
"""The one that the last lease used, and the one that it left."""
AGE_MOST = 8
"""Of a residual that is still used: trainers that take turns come back within that."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where an update goes, and what it is written against."""

    path: Path
    base: Path
    own: Path | None
    """The trainer's directory, which survives its process."""


def write(
    output: Output,
    job: TrainJob,
    model: Schema,
    end: Mapping[str, torch.Tensor],
    start: Mapping[str, torch.Tensor] | None,
) -> Manifest:
    """Writes the base with the steps from start to end upon it. start is None where that is the base itself.

    Raises:
        WorkloadError: values that are not finite, or no directory for what the codec loses.
        StoreError: the disk is full or failing.
    """
    trained = Trained(arrays_of(end), None if start is None else arrays_of(start))
    head = TensorFile(output.base)
    codec = codec_of(job.codec, model)
    schema = residual_schema(codec)
    residuals = _residuals(output.own, schema, job.codec) if schema.tensors else None
    before = residuals.below(job.height) if residuals else None
    try:
        manifest, left = write_update(output.path, codec, head, trained, before)
    except RemoteError as error:
        raise WorkloadError(f"{error}: lower the learning rate") from error
    if residuals is not None:
        residuals.keep(job.height, left)
    return manifest


class Residuals:
    def __init__(self, directory: Path, schema: Schema) -> None:
        self._files = Generations(directory, KIND)
        self._schema = schema

    def below(self, height: int) -> dict[str, Values] | None:
        """The newest that is not too old for a height; None if there is none, or it is not what was written."""
        earlier = self._files.below(height)
        if not earlier or earlier[0] < height - AGE_MOST:
            return None
        return self._files.read(earlier[0], self._take)

    def _take(self, file: TensorFile) -> dict[str, Values]:
        file.require(self._schema)
        return {tensor.name: file.values(index, WHOLE) for index, tensor in enumerate(file.tensors)}

    def keep(self, height: int, residual: Mapping[str, Stored]) -> None:
        """Durable when it returns; forgets all but the last ones."""

        def make(path: Path) -> Manifest:
            return write_artifact(path, ArtifactKind.UPDATE, self._schema, residual, synced=False)

        self._files.keep(height, make, KEPT)
        self._files.sync()


def _residuals(own: Path | None, schema: Schema, codec: str) -> Residuals:
    if own is None:
        raise WorkloadError(
            f"codec {codec} needs a directory for what it loses, and none was named"
        )
    return Residuals(own, schema)
