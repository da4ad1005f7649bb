"""Artifacts: big immutable byte strings, named by the hash of their manifest, moved in chunks of 1 MiB."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256

from p2pd.core.encoding import encode
from p2pd.core.ids import ID_BYTES, ArtifactId, digest

CHUNK_BYTES = 2**20
MAX_ARTIFACT_BYTES = 2**40


class ArtifactKind(IntEnum):
    HEAD = 1
    """All parameters and buffers of a model, canonical safetensors."""
    UPDATE = 2
    """A trainer's candidate, encoded by the revision's codec."""
    OUTER = 3
    """State that is certified with a head: of the outer optimizer, and what the head's codec lost."""
    SHARD = 4
    """Samples of a data set: one file of it."""
    SHARD_SET = 5
    """What a data set in shards consists of."""
    STEP = 6
    """A head as steps from the one before, encoded by the revision's codec of heads."""


@dataclass(frozen=True, slots=True)
class Manifest:
    kind: ArtifactKind
    schema: bytes
    """Hash of the schema of its tensors (names, types, shapes), 32 bytes: of the model's, for a head; of data, what
    stands for their format."""
    size_bytes: int
    chunks: tuple[bytes, ...]
    """SHA-256 of each chunk of CHUNK_BYTES; the last one may be shorter."""
    owner: bytes = b""
    """Peer id of the trainer whose update this is, empty for all other kinds: who names an artifact of another as
    its own has nothing to show for it."""

    def __post_init__(self) -> None:
        if len(self.schema) != ID_BYTES or any(len(chunk) != ID_BYTES for chunk in self.chunks):
            raise ValueError("hashes in a manifest are 32 bytes")
        if not 0 <= self.size_bytes <= MAX_ARTIFACT_BYTES:
            raise ValueError(f"artifact of {self.size_bytes} bytes")
        if len(self.chunks) != chunk_count(self.size_bytes):
            raise ValueError(f"{len(self.chunks)} chunks do not hold {self.size_bytes} bytes")
        if len(self.owner) not in (0, ID_BYTES):
            raise ValueError("an owner is a peer id")

    @property
    def id(self) -> ArtifactId:
        return ArtifactId(digest("artifact", encode(self)))

    def chunk_bytes(self, index: int) -> int:
        """Size of one chunk."""
        return min(CHUNK_BYTES, self.size_bytes - index * CHUNK_BYTES)


def chunk_count(size_bytes: int) -> int:
    return -(-size_bytes // CHUNK_BYTES)


def held_chunks(count: int, missing: Iterable[int]) -> bytes:
    """One bit for each of count chunks, the lowest bit of the first byte first; missing ones are 0."""
    bits = bytearray(b"\xff" * (count // 8) + bytes([2 ** (count % 8) - 1]) * (count % 8 > 0))
    for index in missing:
        bits[index // 8] &= ~(1 << index % 8)
    return bytes(bits)


def holds(held: bytes, index: int) -> bool:
    """Whether the bit of a chunk is set; False beyond the end."""
    return index // 8 < len(held) and bool(held[index // 8] >> index % 8 & 1)


def manifest_of(
    kind: ArtifactKind, schema: bytes, data: bytes | memoryview, owner: bytes = b""
) -> Manifest:
    """The manifest of an artifact that is small enough to be held in memory."""
    view = memoryview(data)
    chunks = tuple(
        sha256(view[start : start + CHUNK_BYTES]).digest()
        for start in range(0, len(view), CHUNK_BYTES)
    )
    return Manifest(kind, schema, len(view), chunks, owner)
