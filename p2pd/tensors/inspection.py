"""What can be said of one update from its bytes alone: layout, schema, finiteness."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from p2pd.core.codecs import element_count
from p2pd.core.ids import ArtifactId, short
from p2pd.core.work import Inspection, InspectJob, Verdict
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors.codecs import Codec, codec_of
from p2pd.tensors.cohort import CHUNK_ELEMENTS
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import FORMATS
from p2pd.tensors.layout import difference, quoted


def inspect(paths: Mapping[ArtifactId, Path], job: InspectJob) -> Inspection:
    """Judges an update; every byte of it is read.

    Raises:
        StoreError: a file cannot be read.
        LocalError: paths does not name one of them, or the base is no head of that schema.
    """
    codec = codec_of(job.codec, job.schema)
    base = _base(_path(paths, job.base), job) if codec.needs_base else None
    path = _path(paths, job.artifact)
    try:
        file = TensorFile(path)
    except RemoteError as error:
        return Inspection(job.artifact, Verdict.LAYOUT, str(error))
    if (found := difference(file.tensors, codec.file)) is not None:
        return Inspection(job.artifact, Verdict.SCHEMA, found)
    verdict, detail = _judge_values(codec, file, base)
    return Inspection(job.artifact, verdict, detail)


def _path(paths: Mapping[ArtifactId, Path], artifact: ArtifactId) -> Path:
    if artifact not in paths:
        raise LocalError(f"no file was named for artifact {short(artifact)}")
    return paths[artifact]


def _base(path: Path, job: InspectJob) -> TensorFile:
    try:
        file = TensorFile(path)
        file.require(job.schema)
    except RemoteError as error:  # a certified head: nothing that the update is to blame for
        raise LocalError(f"base {short(job.base)}: {error}") from error
    return file


def _judge_values(codec: Codec, file: TensorFile, base: TensorFile | None) -> tuple[Verdict, str]:
    for index, tensor in enumerate(codec.model.tensors):
        count = element_count(tensor)
        for start in range(0, count, CHUNK_ELEMENTS):
            span = slice(start, min(start + CHUNK_ELEMENTS, count))
            if FORMATS[tensor.dtype].floating:
                try:
                    codec.values(file, base, index, span)
                except RemoteError as error:
                    return Verdict.NONFINITE, str(error)
                if (found := codec.misfit(file, index, span)) is not None:
                    return Verdict.LAYOUT, found
            elif tensor.dtype == "BOOL" and (codec.stored(file, index)[span] > np.uint8(1)).any():
                return Verdict.LAYOUT, f"tensor {quoted(tensor.name)} has truth values beyond 1"
    return Verdict.ACCEPTED, ""
