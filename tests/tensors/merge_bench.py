"""Artifacts in a directory, and merges of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.work import (
    MILLION,
    Merged,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    Schema,
    TensorSpec,
)
from p2pd.tensors.cohort import CHUNK_ELEMENTS
from p2pd.tensors.files import ArtifactWriter, TensorFile
from p2pd.tensors.formats import FORMATS
from p2pd.tensors.merge import Outputs, merge

MEAN = MergeRule("mean", MILLION, 0)
CLIPPED = MergeRule("norm_clipped_mean", MILLION, 0)
TRIMMED = MergeRule("trimmed_mean", MILLION, 200_000)
RULES = (MEAN, CLIPPED, TRIMMED)
OUTER = OuterRule("mean", MILLION, 0)


def written(path: Path, kind: ArtifactKind, schema: Schema, *arrays: Any) -> ArtifactId:
    """Elements as they are: no canonical zeros, no checks."""
    with ArtifactWriter(path, kind, schema) as writer:
        for tensor, array in zip(schema.tensors, arrays, strict=True):
            writer.write(np.asarray(array, FORMATS[tensor.dtype].storage))
        return writer.finish().id


def inputs_of(updates: list[ArtifactId], weights: Iterable[int]) -> tuple[MergeInput, ...]:
    return tuple(
        MergeInput(UpdateId(bytes([number])), update, weight)
        for number, (update, weight) in enumerate(zip(updates, weights, strict=True))
    )


def schema_of(dtype: str, count: int, *, buffer: bool = False) -> Schema:
    return Schema((TensorSpec("x", dtype, (count,), buffer),))


@dataclass
class Bench:
    """Artifacts in a directory, and merges of them."""

    root: Path
    schema: Schema

    def __post_init__(self) -> None:
        self.paths: dict[ArtifactId, Path] = {}
        self.count = 0

    def path(self) -> Path:
        self.count += 1
        return self.root / str(self.count)

    def add(self, *arrays: Any) -> ArtifactId:
        path = self.path()
        artifact = written(path, ArtifactKind.UPDATE, self.schema, *arrays)
        self.paths[artifact] = path
        return artifact

    def job(self, base: ArtifactId, updates: list[ArtifactId], weights: list[int]) -> MergeJob:
        inputs = inputs_of(updates, weights)
        return MergeJob(base, None, self.schema, inputs, None, MEAN, OUTER)

    def merge(
        self, job: MergeJob, chunk_elements: int = CHUNK_ELEMENTS
    ) -> tuple[Merged, TensorFile]:
        out = self.path()
        answer = merge(self.paths, job, Outputs.beside(out), chunk_elements=chunk_elements)
        merged, manifest = answer.merged, answer.manifest
        assert manifest.id == merged.head
        assert manifest == manifest_of(ArtifactKind.HEAD, self.schema.id, (out).read_bytes())
        return merged, TensorFile(out)
