"""A data set in shard files, and the set's own manifest, which names every byte of it. Pure.

A shard file: 8 bytes of magic, the number n of its samples, n + 1 places, then the samples
(p2pd.core.samples) one after another; sample k lies from place k up to place k + 1. Numbers are 8 bytes,
little-endian; places are bytes from the beginning of the file.

Each file is an artifact, and so is the encoded ShardSet: its id names the data, and stands in a
revision as their descriptor. Units: samples, bytes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from p2pd.core.artifact import (
    ArtifactKind,
    Manifest,
    chunk_count,
    manifest_of,
)
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ID_BYTES, ArtifactId, digest
from p2pd.core.samples import SAMPLE_BYTES_MOST
from p2pd.errors import RemoteError

SHARD_FORMAT = digest("shards", b"1")
"""Stands for the schema in the manifest of each artifact of a set: another format has another one."""
MAGIC = b"P2PDSHRD"
NUMBER_BYTES = 8
HEADER_BYTES = len(MAGIC) + NUMBER_BYTES
SHARD_BYTES_MOST = 2**30
SET_BYTES_MOST = 32 * 2**20
"""Of a manifest: of a million chunks."""
SHARD_SAMPLES_MOST = 2**24
FILES_MOST = 2**18
"""Of one split."""
SPLITS_MOST = 16
CLASSES_MOST = 2**16
NAME_CHARACTERS_MOST = 255
SPLIT_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
SET_FILE = "set.cbor"
TRAIN = "train"
"""The split that is leased. All others are for validation: whoever evaluates has them whole."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    name: str
    """In the directory of its set."""
    manifest: Manifest


@dataclass(frozen=True)
class Split:
    name: str
    samples: int
    shard_samples: int
    """In each file; in the last one there may be fewer."""
    sizes: tuple[int, ...]
    """Of the files."""
    chunks: bytes
    """SHA-256 of each chunk of each file, one after another."""

    def __post_init__(self) -> None:
        if SPLIT_NAME.fullmatch(self.name) is None:
            raise ValueError(
                f"split {self.name!r:.40}: a name has up to 32 lowercase letters, digits and _"
            )
        if not 0 < self.shard_samples <= SHARD_SAMPLES_MOST or self.samples < 1:
            raise ValueError(f"split {self.name}: samples, or samples of a file, out of range")
        if len(self.sizes) > FILES_MOST or len(self.sizes) != -(
            -self.samples // self.shard_samples
        ):
            raise ValueError(
                f"split {self.name}: {len(self.sizes)} files do not hold {self.samples} samples"
            )
        self._check_sizes()
        if len(self.chunks) != ID_BYTES * sum(map(chunk_count, self.sizes)):
            raise ValueError(f"split {self.name}: not one hash for each chunk")

    def _check_sizes(self) -> None:
        """Not one by one: there may be hundreds of thousands."""
        *full, last = self.sizes
        bounds = (
            (min(full, default=SHARD_BYTES_MOST), index_bytes(self.shard_samples)),
            (last, index_bytes(self.samples_of(len(full)))),
            (max(self.sizes), 0),
        )
        for size, index in bounds:
            if not index < size <= SHARD_BYTES_MOST:
                raise ValueError(f"split {self.name}: a file of {size} bytes")

    def file_name(self, number: int) -> str:
        return f"{self.name}-{number:06d}.shard"

    def samples_of(self, number: int) -> int:
        """In one file."""
        return min(self.shard_samples, self.samples - number * self.shard_samples)

    def manifest(self, number: int) -> Manifest:
        """The file as an artifact."""
        size, first = self.sizes[number], self._first_chunks[number]
        starts = range(first * ID_BYTES, (first + chunk_count(size)) * ID_BYTES, ID_BYTES)
        hashes = tuple(self.chunks[start : start + ID_BYTES] for start in starts)
        return Manifest(ArtifactKind.SHARD, SHARD_FORMAT, size, hashes)

    def file(self, number: int) -> ShardFile:
        return ShardFile(self.file_name(number), self.manifest(number))

    @cached_property
    def _first_chunks(self) -> tuple[int, ...]:
        return (0, *accumulate(map(chunk_count, self.sizes)))

    def files_of(self, spans: Iterable[range]) -> tuple[int, ...]:
        """The files that hold these samples, each once, ascending. Raises ValueError: there is no such sample."""
        found: set[int] = set()
        for span in spans:
            if not span:
                continue
            if span[0] < 0 or span[-1] >= self.samples:
                raise ValueError(
                    f"split {self.name} has {self.samples} samples, none of number {span[-1]}"
                )
            found.update(range(span[0] // self.shard_samples, span[-1] // self.shard_samples + 1))
        return tuple(sorted(found))


@dataclass(frozen=True)
class ShardSet:
    splits: tuple[Split, ...]
    classes: tuple[str, ...] = ()
    """Names of the classes by number, where directories were classes."""

    def __post_init__(self) -> None:
        names = [split.name for split in self.splits]
        if not 1 <= len(names) <= SPLITS_MOST or names != sorted(set(names)):
            raise ValueError(f"a set has 1 to {SPLITS_MOST} splits, sorted, each once")
        if len(self.classes) > CLASSES_MOST or any(
            len(name) > NAME_CHARACTERS_MOST for name in self.classes
        ):
            raise ValueError(f"a set has at most {CLASSES_MOST} classes, with short names")

    @cached_property
    def encoded(self) -> bytes:
        return encode(self)

    @cached_property
    def manifest(self) -> Manifest:
        """The encoded set as an artifact."""
        return manifest_of(ArtifactKind.SHARD_SET, SHARD_FORMAT, self.encoded)

    @property
    def id(self) -> ArtifactId:
        return self.manifest.id

    def split(self, name: str) -> Split | None:
        return next((split for split in self.splits if split.name == name), None)

    def files(self) -> Iterator[tuple[Split, int]]:
        for split in self.splits:
            for number in range(len(split.sizes)):
                yield split, number


def load_set(data: bytes, wanted: ArtifactId | None = None) -> ShardSet:
    """
    Raises:
        RemoteError: malformed, or another set than the wanted one.
    """
    found = decode(ShardSet, data, limit_bytes=SET_BYTES_MOST)
    if wanted is not None and found.id != wanted:
        raise RemoteError(f"it is the set {found.id.hex()}, not {wanted.hex()}")
    return found


def index_bytes(samples: int) -> int:
    """Where the first sample of a file of so many begins."""
    return HEADER_BYTES + (samples + 1) * NUMBER_BYTES


def pack_shard(records: Sequence[bytes]) -> bytes:
    """A shard file. Raises ValueError: it would be too large."""
    places = list(accumulate(map(len, records), initial=index_bytes(len(records))))
    if places[-1] > SHARD_BYTES_MOST:
        raise ValueError(
            f"{len(records)} samples take {places[-1]} bytes, a shard file {SHARD_BYTES_MOST} at most"
        )
    numbers = (len(records), *places)
    index = b"".join(number.to_bytes(NUMBER_BYTES, "little") for number in numbers)
    return b"".join((MAGIC, index, *records))


def entry_place(sample: int) -> int:
    """Where the two places that enclose a sample stand in its file; span_of reads them."""
    return HEADER_BYTES + sample * NUMBER_BYTES


def span_of(entry: bytes, samples: int, size_bytes: int) -> tuple[int, int]:
    """Where a sample begins, and its length, in a file of so many samples and bytes.

    Raises:
        RemoteError: such a place is not in this file.
    """
    if len(entry) != 2 * NUMBER_BYTES:
        raise RemoteError("the shard file ends early")
    start = int.from_bytes(entry[:NUMBER_BYTES], "little")
    end = int.from_bytes(entry[NUMBER_BYTES:], "little")
    if not index_bytes(samples) <= start < end <= size_bytes:
        raise RemoteError("a sample lies outside of its shard file")
    if end - start > SAMPLE_BYTES_MOST:
        raise RemoteError(f"a sample of {end - start} bytes, {SAMPLE_BYTES_MOST} are the most")
    return start, end - start


def unpack_shard(data: bytes) -> list[bytes]:
    """All samples of a shard file, each byte of it accounted for.

    Raises:
        RemoteError: it is not a shard file.
    """
    samples = int.from_bytes(data[len(MAGIC) : HEADER_BYTES], "little")
    if data[: len(MAGIC)] != MAGIC or not 0 < samples <= len(data) // NUMBER_BYTES:
        raise RemoteError("this is not a shard file")
    records, end = [], index_bytes(samples)
    for number in range(samples):
        place = entry_place(number)
        start, length = span_of(data[place : place + 2 * NUMBER_BYTES], samples, len(data))
        if start != end:
            raise RemoteError("samples of a shard file must lie one after another")
        records.append(data[start : start + length])
        end = start + length
    if end != len(data):
        raise RemoteError("bytes after the last sample of a shard file")
    return records
