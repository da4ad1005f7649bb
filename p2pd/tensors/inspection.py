"""What can be said of one update from its bytes alone: layout, schema, finiteness."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from p2pd.core.ids import ArtifactId, short
from p2pd.core.work import Inspection, InspectJob, Verdict
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors.cohort import CHUNK_ELEMENTS
from p2pd.tensors.files import TensorFile
from p2pd.tensors.formats import FORMATS
from p2pd.tensors.layout import difference, element_count, quoted


def inspect(paths: Mapping[ArtifactId, Path], job: InspectJob) -> Inspection:
    """Judges an update; every byte of it is read.

    Raises:
        StoreError: the file cannot be read.
        LocalError: paths does not name it.
    """
    if job.artifact not in paths:
        raise LocalError(f"no file was named for artifact {short(job.artifact)}")
    try:
        file = TensorFile(paths[job.artifact])
    except RemoteError as error:
        return Inspection(job.artifact, Verdict.LAYOUT, str(error))
    if (found := difference(file.tensors, job.schema)) is not None:
        return Inspection(job.artifact, Verdict.SCHEMA, found)
    verdict, detail = _judge_values(file)
    return Inspection(job.artifact, verdict, detail)


def _judge_values(file: TensorFile) -> tuple[Verdict, str]:
    for index, tensor in enumerate(file.tensors):
        for start in range(0, element_count(tensor), CHUNK_ELEMENTS):
            span = slice(start, start + CHUNK_ELEMENTS)
            if FORMATS[tensor.dtype].floating:
                try:
                    file.values(index, span)
                except RemoteError as error:
                    return Verdict.NONFINITE, str(error)
            elif tensor.dtype == "BOOL" and (file.stored(index, span) > np.uint8(1)).any():
                return Verdict.LAYOUT, f"tensor {quoted(tensor.name)} has truth values beyond 1"
    return Verdict.ACCEPTED, ""
