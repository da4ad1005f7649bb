"""A directory that `p2pd data shard` wrote, as artifacts that may be read, each chunk checked. Blocking. Bytes."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from p2pd.core.artifact import CHUNK_BYTES, Manifest
from p2pd.core.ids import ArtifactId
from p2pd.core.shards import SET_BYTES_MOST, SET_FILE, ShardSet, load_set
from p2pd.errors import RemoteError, StoreError
from p2pd.io.durable import open_file, read_most, storing


@dataclass(frozen=True)
class ShardDirectory:
    path: Path
    shards: ShardSet

    @cached_property
    def files(self) -> Mapping[ArtifactId, tuple[Path, Manifest]]:
        """What lies here, or should."""
        manifest = self.shards.manifest
        found = {manifest.id: (self.path / SET_FILE, manifest)}
        for split, number in self.shards.files():
            manifest = split.manifest(number)
            found[manifest.id] = self.path / split.file_name(number), manifest
        return found

    def read(self, artifact: ArtifactId, index: int) -> bytes | None:
        """One chunk; None if it is not here.

        Raises:
            StoreError: the file holds other bytes, or cannot be read.
        """
        known = self.files.get(artifact)
        if known is None or not 0 <= index < len(known[1].chunks):
            return None
        path, manifest = known
        with storing(path):
            try:
                with open_file(path) as file:
                    file.seek(index * CHUNK_BYTES)
                    data = file.read(manifest.chunk_bytes(index))
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return None
                raise
        if sha256(data).digest() != manifest.chunks[index]:
            raise StoreError(f"{path}: not the bytes that its set names: bring a sound copy")
        return data

    def check(self, artifact: ArtifactId) -> None:
        """Raises StoreError: a file of the set is not here, or holds other bytes."""
        path, manifest = self.files[artifact]
        with storing(path):
            if path.stat().st_size != manifest.size_bytes:
                raise StoreError(f"{path}: not the size that its set names: bring a sound copy")
        for index in range(len(manifest.chunks)):
            self.read(artifact, index)


def open_directory(path: Path) -> ShardDirectory:
    """
    Raises:
        StoreError: there is no set, or its manifest is malformed.
    """
    file_path = path / SET_FILE
    with storing(file_path), open_file(file_path) as file:
        data = read_most(file, SET_BYTES_MOST)
    try:
        return ShardDirectory(path, load_set(data))
    except RemoteError as error:
        raise StoreError(
            f"{file_path}: not the manifest of a data set ({error}): bring a sound copy"
        ) from error
