"""Updates written by the revision's codec, with what it lost kept on disk for the next one.

A residual is a file in the trainer's own directory, `residual-HEIGHT.safetensors`, on stable storage
before the update is announced. A lease uses the newest one below its own height, so that training it
again, after a crash, starts from the same. One that is older than a few heights is dropped: a trainer
that was away goes on from a head that others have made, and what it lost before is no news to it.
Units: heights of plans.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.work import Schema, TrainJob
from p2pd.errors import RemoteError, StoreError, WorkloadError, advice
from p2pd.tensors.codecs import codec_of
from p2pd.tensors.files import TensorFile, sync_directory, write_artifact
from p2pd.tensors.formats import Stored, Values
from p2pd.tensors.updates import WHOLE, Trained, residual_schema, write_update
from p2pd.workload.heads import arrays_of

NAME = re.compile(r"residual-([0-9]{1,20})\.safetensors")
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
        self._directory = directory
        self._schema = schema

    def below(self, height: int) -> dict[str, Values] | None:
        """The newest that is not too old for a height; None if there is none, or it is not what was written."""
        earlier = [found for found in self._heights() if height - AGE_MOST <= found < height]
        if not earlier:
            return None
        path = self._path(max(earlier))
        try:
            file = TensorFile(path)
            file.require(self._schema)
            return {
                tensor.name: file.values(index, WHOLE) for index, tensor in enumerate(file.tensors)
            }
        except RemoteError as error:
            # Losing it costs a little accuracy once; stopping for it would cost the trainer.
            print(f"{path} is damaged and was not used: {error}")  # noqa: T201 - the worker's log
            return None

    def keep(self, height: int, residual: Mapping[str, Stored]) -> None:
        """Durable when it returns; forgets all but the last ones."""
        aside = self._directory / "residual.writing"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            aside.unlink(missing_ok=True)
            write_artifact(aside, ArtifactKind.UPDATE, self._schema, residual)
            aside.replace(self._path(height))
            for directory in (self._directory, self._directory.parent):  # which may be new as well
                sync_directory(directory)
            for old in sorted(self._heights())[:-KEPT]:
                self._path(old).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self._directory}: {advice(error)}") from error

    def _heights(self) -> list[int]:
        if not self._directory.is_dir():
            return []
        found = (NAME.fullmatch(path.name) for path in self._directory.iterdir())
        return [int(match[1]) for match in found if match]

    def _path(self, height: int) -> Path:
        return self._directory / f"residual-{height}.safetensors"


def _residuals(own: Path | None, schema: Schema, codec: str) -> Residuals:
    if own is None:
        raise WorkloadError(
            f"codec {codec} needs a directory for what it loses, and none was named"
        )
    return Residuals(own, schema)
