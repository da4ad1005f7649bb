"""Writes a data set as shard files with their manifest. Blocking. Units: samples, bytes.

The same samples in the same order give the same bytes, and the same id, on any machine.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.shards import (
    FILES_MOST,
    SET_BYTES_MOST,
    SET_FILE,
    SHARD_FORMAT,
    ShardSet,
    Split,
    pack_shard,
)
from p2pd.errors import UsageError
from p2pd.io.durable import TEMPORARY, storing, sync_directory, write_synced

SHARD_MODE = 0o644
"""Data are for others to read: a web server, say."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the samples of one split come from."""

    name: str
    """As a person gave it."""
    records: Iterable[bytes]
    """Each one encoded sample."""
    classes: tuple[str, ...] = ()


def write_set(out: Path, sources: Mapping[str, Source], shard_samples: int) -> ShardSet:
    """Writes the directory out, whole or not at all: a split for each source.

    Raises:
        UsageError: the samples make no data set.
        StoreError: it cannot be written.
    """
    classes = {source.classes for source in sources.values()}
    if len(classes) > 1:
        first, other = list(sources.values())[:2]
        raise UsageError(f"{first.name} and {other.name} have other classes: give both the same")
    with storing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=out.parent) as name:
            directory = Path(name) / "set"
            directory.mkdir()
            splits = [
                _write_split(directory, split, source, shard_samples)
                for split, source in sorted(sources.items())
            ]
            shards = _checked(tuple(splits), *classes)
            _write(directory / SET_FILE, shards.encoded)
            sync_directory(directory)
            directory.replace(out)
            sync_directory(out.parent)
    return shards


def _checked(splits: tuple[Split, ...], classes: tuple[str, ...]) -> ShardSet:
    try:
        shards = ShardSet(splits, classes)
    except ValueError as error:
        raise UsageError(f"the data make no set: {error}") from error
    if len(shards.encoded) > SET_BYTES_MOST:
        raise UsageError(
            f"the manifest of the set has {len(shards.encoded)} bytes, {SET_BYTES_MOST} are the most:"
            " make several sets of it"
        )
    return shards


def _write_split(directory: Path, name: str, source: Source, shard_samples: int) -> Split:
    samples, sizes, chunks = 0, [], bytearray()
    for number, records in enumerate(_batches(source.records, shard_samples)):
        if number >= FILES_MOST:
            raise UsageError(
                f"{source.name}: more than {FILES_MOST} files: raise samples-per-shard"
            )
        try:
            data = pack_shard(records)
        except ValueError as error:
            raise UsageError(f"{source.name}: {error}: lower samples-per-shard") from error
        _write(directory / f"{name}-{number:06d}.shard", data)
        manifest = manifest_of(ArtifactKind.SHARD, SHARD_FORMAT, data)
        samples += len(records)
        sizes.append(len(data))
        chunks += b"".join(manifest.chunks)
    if not samples:
        raise UsageError(f"{source.name}: there are no samples in it")
    try:
        return Split(name, samples, shard_samples, tuple(sizes), bytes(chunks))
    except ValueError as error:
        raise UsageError(f"the data make no set: {error}") from error


def _write(path: Path, data: bytes) -> None:
    write_synced(path, data)
    path.chmod(SHARD_MODE)


def _batches(records: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    rest = iter(records)
    while batch := list(islice(rest, size)):
        yield batch
