"""Heads as int8 steps: the next head is the base and a decoded step, by definition, on every node.

What the step does not say is part of the certified state, and goes into the next head's step: nothing
is lost in the long run, however small the steps of a parameter are beside others of its block. All is
float64; what would overflow stays at the largest value, as of the outer optimizer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.codecs import SCALE_SUFFIX, element_count, is_trained
from p2pd.core.ids import ArtifactId, short
from p2pd.core.work import RebuildJob
from p2pd.errors import RemoteError
from p2pd.tensors.blocks import LARGEST as LARGEST_NUMBER
from p2pd.tensors.blocks import in_int8
from p2pd.tensors.codecs import Codec, codec_of
from p2pd.tensors.files import ArtifactWriter, TensorFile, open_artifact
from p2pd.tensors.formats import Stored, Values, decode, encode
from p2pd.tensors.outer import LARGEST, within

CHUNK_ELEMENTS = 2**16
STEP_MOST = LARGEST["F32"] * LARGEST_NUMBER["int8"]
"""What the largest scale holds."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """Elements of one tensor, from where a block begins."""

    head: Stored
    numbers: Stored
    scales: Stored
    left: Stored
    """What the step does not say, float32."""


def stepped(base: Values, wanted: Values, left: Values, dtype: str) -> Stepped:
    """The head that comes as near to what is wanted, and to what was left before, as a step does."""
    steps = np.maximum(np.minimum(wanted - base + left, STEP_MOST), -STEP_MOST)
    parts, decoded = in_int8(steps)
    head = _upon(base, decoded, dtype)
    lost = within(steps - (decode(head, dtype) - base), "F32")
    return Stepped(head, parts[""], parts[SCALE_SUFFIX], encode(lost, "F32"))


def _upon(base: Values, steps: Values, dtype: str) -> Stored:
    return encode(within(base + steps, dtype), dtype)


class StepWriter:
    """Writes the file of a step as the chunks of its tensors come.

    The scales of a tensor stand behind its numbers, perhaps with others between: they wait in memory.
    """

    def __init__(self, writer: ArtifactWriter, codec: Codec) -> None:
        self._writer = writer
        self._codec = codec
        self._scales: dict[int, list[Stored]] = {}
        """By their place in the file."""
        self._next = 0
        """Of the file's tensors, the first that is not written."""

    def write(self, index: int, numbers: Stored, scales: Stored | None) -> None:
        """Elements of tensor number index of the model, in order."""
        place = self._codec.places[index]
        self._write_scales(place.index)
        self._writer.write(numbers)
        if place.scale is not None and scales is not None:
            self._scales.setdefault(place.scale, []).append(scales)

    def finish(self) -> Manifest:
        self._write_scales(len(self._codec.file.tensors))
        return self._writer.finish()

    def _write_scales(self, end: int) -> None:
        for number in range(self._next, end):
            for scales in self._scales.pop(number, []):
                self._writer.write(scales)
        self._next = end


def rebuild(paths: Mapping[ArtifactId, Path], job: RebuildJob, out_path: Path) -> Manifest:
    """Makes a head of the one before and its step.

    Raises:
        RemoteError: a file is not what it should be, or another head comes out.
        StoreError: a file cannot be read or written.
        LocalError: paths does not name one of them.
    """
    codec = codec_of(job.codec, job.schema)
    base = open_artifact(paths, job.step.base, job.schema)
    step = open_artifact(paths, job.step.artifact, codec.file)
    with ArtifactWriter(out_path, ArtifactKind.HEAD, job.schema) as writer:
        for index, tensor in enumerate(job.schema.tensors):
            count = element_count(tensor)
            for start in range(0, count, CHUNK_ELEMENTS):
                span = slice(start, min(start + CHUNK_ELEMENTS, count))
                writer.write(_elements(codec, base, step, index, span))
        manifest = writer.finish()
    if manifest.id != job.head:
        out_path.unlink()
        raise RemoteError(f"head {short(job.head)} does not come out of its step")
    return manifest


def _elements(codec: Codec, base: TensorFile, step: TensorFile, index: int, span: slice) -> Stored:
    tensor = codec.model.tensors[index]
    if is_trained(tensor):
        return _upon(base.values(index, span), codec.steps(step, index, span), tensor.dtype)
    return codec.stored(step, index, span)
