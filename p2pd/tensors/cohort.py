"""A base and the updates that started from it, read chunk by chunk: memory is O(chunk x cohort)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from p2pd.core.codecs import BLOCK_ELEMENTS, element_count, is_trained, outer_schema
from p2pd.core.ids import ArtifactId, short
from p2pd.core.work import MergeJob, Schema
from p2pd.errors import RemoteError
from p2pd.tensors.codecs import Codec, codec_of
from p2pd.tensors.files import TensorFile, open_artifact
from p2pd.tensors.formats import Stored, Values

CHUNK_ELEMENTS = 2**16
"""Of one tensor at a time; 512 kB in float64: what is done with a chunk finds it in the cache, and threads
seldom wait for the interpreter."""

NARROW = frozenset({"F32", "F16"})
"""Types that numpy converts to float64 itself, and whose sums float64 always holds."""


@dataclass(frozen=True, slots=True)
class Cohort:
    schema: Schema
    base: TensorFile
    updates: tuple[TensorFile, ...]
    """Ascending by update id."""
    origins: tuple[TensorFile, ...]
    """The head that each of them started from: mostly the base."""
    artifacts: tuple[ArtifactId, ...]
    codec: Codec
    chunk_elements: int

    @property
    def trained(self) -> tuple[int, ...]:
        """Numbers of the tensors that training moves: floating, no buffers; they have features."""
        return tuple(
            index for index, tensor in enumerate(self.schema.tensors) if is_trained(tensor)
        )

    def spans(self, index: int) -> Iterator[slice]:
        """The chunks of one tensor, in order."""
        count = element_count(self.schema.tensors[index])
        for start in range(0, count, self.chunk_elements):
            yield slice(start, min(start + self.chunk_elements, count))

    def base_values(self, index: int, span: slice) -> Values:
        return self.base.values(index, span)

    def stored(self, number: int, index: int) -> Stored:
        """A tensor of one update that travels as it is."""
        return self.codec.stored(self.updates[number], index)

    def narrow(self, index: int, span: slice) -> tuple[Stored, list[Stored]] | None:
        """Base and updates as they lie in their files, where these are plain numbers that need no decoding.

        Nothing of them was checked, and zeros may be negative.
        """
        plain = self.schema.tensors[index].dtype in NARROW and not self.codec.places[index].steps
        if not plain or any(origin is not self.base for origin in self.origins):
            return None
        stored = [self.codec.stored(update, index, span) for update in self.updates]
        return self.base.stored(index, span), stored

    def rows(self, index: int, span: slice) -> list[Values]:
        """Decoded values of all updates."""
        return [self.values(number, index, span) for number in range(len(self.updates))]

    def values(self, number: int, index: int, span: slice) -> Values:
        """Decoded values of one update; of one that started from an earlier head, its steps upon the base.

        Raises:
            RemoteError: values that are not finite.
        """
        origin = self.origins[number]
        try:
            values = self.codec.values(self.updates[number], origin, index, span)
            if origin is self.base or not is_trained(self.schema.tensors[index]):
                return values
            return self.base_values(index, span) + (values - origin.values(index, span)) + 0.0
        except RemoteError as error:
            raise RemoteError(f"artifact {short(self.artifacts[number])}: {error}") from error


def open_cohort(paths: Mapping[ArtifactId, Path], job: MergeJob, chunk_elements: int) -> Cohort:
    """Opens the files of a merge and checks that all of them are as the schema says.

    Raises:
        RemoteError: a file is not canonical, or not of that schema.
        StoreError: a file cannot be read.
    """
    if job.head_codec != "f32":  # a chunk is of whole blocks
        block = BLOCK_ELEMENTS[job.head_codec]
        chunk_elements = -(-chunk_elements // block) * block
    artifacts = tuple(entry.artifact for entry in job.inputs)
    codec = codec_of(job.codec, job.schema)
    opened = {
        artifact: open_artifact(paths, artifact, codec.file) for artifact in sorted(set(artifacts))
    }
    wanted = {job.base, *(entry.base or job.base for entry in job.inputs)}
    heads = {head: open_artifact(paths, head, job.schema) for head in sorted(wanted)}
    return Cohort(
        job.schema,
        heads[job.base],
        tuple(opened[artifact] for artifact in artifacts),
        tuple(heads[entry.base or job.base] for entry in job.inputs),
        artifacts,
        codec,
        chunk_elements,
    )


def open_state(paths: Mapping[ArtifactId, Path], job: MergeJob) -> TensorFile | None:
    """The outer optimizer's state before the merge; None where there is none yet.

    Raises:
        RemoteError: it is not of the schema that the model's follows.
        StoreError: it cannot be read.
    """
    if job.outer is None:
        return None
    return open_artifact(paths, job.outer, outer_schema(job.schema, job.state_parts))
