"""Where the shard files of a data set lie on this machine: read only, one sample at a time.

A place is a directory that `p2pd data shard` wrote, or a node's own store, where each file has its
artifact's id for a name. Units: bytes.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from p2pd.core.ids import ArtifactId
from p2pd.core.shards import (
    NUMBER_BYTES,
    SET_BYTES_MOST,
    SET_FILE,
    ShardSet,
    Split,
    entry_place,
    load_set,
    span_of,
)
from p2pd.errors import RemoteError, WorkloadError, advice

_PLACES: ContextVar[tuple[Path, ...]] = ContextVar("places", default=())


@contextmanager
def data_in(places: Sequence[Path]) -> Iterator[None]:
    """What the user's code builds meanwhile finds its data there."""
    token = _PLACES.set(tuple(places))
    try:
        yield
    finally:
        _PLACES.reset(token)


def places() -> tuple[Path, ...]:
    return _PLACES.get()


def open_set(directory: Path) -> ShardSet:
    """The set in a directory that `p2pd data shard` wrote.

    Raises:
        WorkloadError: there is none.
    """
    path = directory / SET_FILE
    try:
        return load_set(_head(path))
    except OSError as error:
        raise WorkloadError(f"{path}: {advice(error)}") from error
    except RemoteError as error:
        raise WorkloadError(
            f"{path}: not the manifest of a data set ({error}): write the set again"
        ) from error


def find_set(wanted: ArtifactId, where: Sequence[Path]) -> ShardSet:
    """The set of this id.

    Raises:
        WorkloadError: it is in none of these places.
    """
    for place in where:
        for path in (place / wanted.hex(), place / SET_FILE):
            try:
                return load_set(_head(path), wanted)
            except (OSError, RemoteError):
                continue  # another place may have it
    said = f", looked for in {', '.join(map(str, where))}" if where else ""
    raise WorkloadError(
        f"data set {wanted.hex()} is not here{said}: name the directory that `p2pd data shard` wrote (--data)"
    )


class SampleFiles:
    """The files of one split, as far as they lie in some places."""

    def __init__(self, where: Sequence[Path], split: Split) -> None:
        self._where = tuple(where)
        self._split = split
        self._paths: dict[int, tuple[str, ...]] = {}
        """Where a file may lie. To hash its manifest for each of its samples would take longer than all the rest."""

    def read(self, place: int) -> bytes | None:
        """The bytes of one sample; None where its file lies in none of these places.

        Raises:
            WorkloadError: the file cannot be read, or is damaged.
        """
        number, offset = divmod(place, self._split.shard_samples)
        for path in self._paths_of(number):
            try:
                return _read(path, self._split, number, offset)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise WorkloadError(f"{path}: {advice(error)}") from error
            except RemoteError as error:
                raise WorkloadError(
                    f"{path}: {error}: remove it, so that it is fetched or written again"
                ) from error
        return None

    def _paths_of(self, number: int) -> tuple[str, ...]:
        found = self._paths.get(number)
        if found is None:
            names = self._split.manifest(number).id.hex(), self._split.file_name(number)
            found = tuple(str(place / name) for place in self._where for name in names)
            self._paths[number] = found
        return found


def _read(path: str, split: Split, number: int, offset: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        entry = os.pread(descriptor, 2 * NUMBER_BYTES, entry_place(offset))
        start, length = span_of(entry, split.samples_of(number), split.sizes[number])
        data = os.pread(descriptor, length, start)
    finally:
        os.close(descriptor)
    if len(data) != length:
        raise RemoteError("the shard file ends early")
    return data


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(min(SET_BYTES_MOST, os.fstat(file.fileno()).st_size) + 1)
