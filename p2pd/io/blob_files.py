"""How artifacts lie on disk. Everything here blocks: call it from a thread.

    <id>            the bytes of a complete artifact
    <id>.part       one that is still coming: full size, holes where chunks are missing
    <id>.manifest   its manifest, canonical CBOR; written first, removed last
    <id>.damaged    bytes that no longer match, kept for a person to look at
    <id>.keep       empty: the artifact is not removed to make room, until this file is
    tmp-*           unfinished files; removed at start

Every file proves itself: <id> is the hash of the manifest, which holds the hashes of the chunks.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from p2pd.core.artifact import CHUNK_BYTES, Manifest
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId
from p2pd.errors import RemoteError, StoreError
from p2pd.io.durable import (
    TEMPORARY,
    exists,
    open_file,
    read_most,
    remove_unfinished,
    storing,
    sync_directory,
    write_aside,
    write_durably,
    write_synced,
)

MAX_MANIFEST_BYTES = 64 * 2**20
NAME = re.compile(r"([0-9a-f]{64})(|\.part|\.manifest|\.damaged|\.keep)")

Stamp = tuple[int, int, int]
"""Inode, size and time of the last change of a file: others, and its bytes may be others too."""


@dataclass(frozen=True, slots=True)
class Found:
    """An artifact that an earlier run left."""

    artifact: ArtifactId
    manifest: Manifest
    complete: bool
    modified_s: float


@dataclass(frozen=True, slots=True)
class Survey:
    found: tuple[Found, ...]
    """Oldest first."""
    damaged: tuple[ArtifactId, ...]
    """Just moved aside."""
    kept: tuple[ArtifactId, ...]
    """Those that a .keep file names, whether they are here or not."""


class BlobFiles:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def payload(self, artifact: ArtifactId) -> Path:
        return self.directory / artifact.hex()

    def part(self, artifact: ArtifactId) -> Path:
        return self.directory / f"{artifact.hex()}.part"

    def damaged(self, artifact: ArtifactId) -> Path:
        return self.directory / f"{artifact.hex()}.damaged"

    def _manifest(self, artifact: ArtifactId) -> Path:
        return self.directory / f"{artifact.hex()}.manifest"

    def survey(self) -> Survey:
        """Makes the directory if need be, removes leftovers, and says what is there."""
        with storing(self.directory):
            self.directory.mkdir(mode=0o700, exist_ok=True)
            with os.scandir(self.directory) as entries:
                names = [entry.name for entry in entries if _is_ours(entry)]
            remove_unfinished(self.directory)
            matches = [match for match in map(NAME.fullmatch, names) if match]
            kept = {ArtifactId(bytes.fromhex(m[1])) for m in matches if m[2] == ".keep"}
            artifacts = sorted(
                ArtifactId(bytes.fromhex(name))
                for name in {m[1] for m in matches if m[2] in ("", ".part", ".manifest")}
            )
            found, damaged = [], []
            for artifact in artifacts:
                manifest = self._load_manifest(artifact)
                state = manifest and self._look(artifact, manifest)
                if state:
                    found.append(state)
                elif self.payload(artifact).exists():
                    self.set_aside(artifact)
                    damaged.append(artifact)
                else:
                    self.remove(artifact)
        found.sort(key=lambda item: item.modified_s)
        return Survey(tuple(found), tuple(damaged), tuple(sorted(kept)))

    def _load_manifest(self, artifact: ArtifactId) -> Manifest | None:
        path = self._manifest(artifact)
        if not exists(path):
            return None
        with storing(path), open_file(path) as file:
            data = read_most(file, MAX_MANIFEST_BYTES)
        try:
            manifest = decode(Manifest, data, limit_bytes=MAX_MANIFEST_BYTES)
        except RemoteError:
            return None  # not what was written: the caller moves its payload aside
        return manifest if manifest.id == artifact else None

    def _look(self, artifact: ArtifactId, manifest: Manifest) -> Found | None:
        for path, complete in ((self.payload(artifact), True), (self.part(artifact), False)):
            if path.exists():
                status = path.stat()
                if complete and status.st_size != manifest.size_bytes:
                    return None
                return Found(artifact, manifest, complete, status.st_mtime)
        return None

    def damaged_bytes(self) -> Iterator[tuple[ArtifactId, int]]:
        with storing(self.directory):
            for path in sorted(self.directory.glob("*.damaged")):
                match = NAME.fullmatch(path.name)
                if match:
                    yield ArtifactId(bytes.fromhex(match[1])), path.lstat().st_size

    def begin(self, artifact: ArtifactId, manifest: Manifest) -> None:
        """Nothing is synced: a part whose manifest a power cut took is removed at the next start."""
        self._write_manifest(artifact, manifest)
        with storing(self.part(artifact)), self.part(artifact).open("wb") as file:
            file.truncate(manifest.size_bytes)

    def _write_manifest(self, artifact: ArtifactId, manifest: Manifest) -> None:
        path = self._manifest(artifact)
        with storing(path), path.open("wb") as file:
            file.write(encode(manifest))

    def missing(self, artifact: ArtifactId, manifest: Manifest) -> set[int]:
        """Chunks that a part left by an earlier run does not hold, found by hashing all of it."""
        part = self.part(artifact)
        with storing(part):
            os.truncate(part, manifest.size_bytes)
        indexes = range(len(manifest.chunks))
        return {n for n in indexes if self.read_chunk(part, manifest, n) is None}

    def write_chunk(
        self, artifact: ArtifactId, manifest: Manifest, index: int, data: bytes
    ) -> None:
        """
        Raises:
            RemoteError: data is not that chunk.
        """
        if sha256(data).digest() != manifest.chunks[index]:
            raise RemoteError(f"bytes sent as chunk {index} of {artifact.hex()} are not that chunk")
        with storing(self.part(artifact)), self.part(artifact).open("r+b") as file:
            file.seek(index * CHUNK_BYTES)
            file.write(data)

    def read_chunk(self, path: Path, manifest: Manifest, index: int) -> bytes | None:
        """None if path is gone, cannot be read from the disk, or holds other bytes."""
        try:
            with open_file(path) as file:
                file.seek(index * CHUNK_BYTES)
                data = file.read(manifest.chunk_bytes(index))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EIO):
                return None
            with storing(path):
                raise
        return data if sha256(data).digest() == manifest.chunks[index] else None

    def stamps(self, paths: Sequence[Path]) -> list[Stamp | None]:
        """None where there is no such file."""
        found: list[Stamp | None] = []
        for path in paths:
            with storing(path):
                try:
                    found.append(_stamp(path))
                except FileNotFoundError:
                    found.append(None)
        return found

    def keep(self, artifact: ArtifactId) -> None:
        write_durably(self.directory / f"{artifact.hex()}.keep", b"")

    def finish(self, artifact: ArtifactId, synced: bool) -> Stamp:
        """Not synced, a power cut may take it or leave other bytes, which the next reader finds."""
        part, payload = self.part(artifact), self.payload(artifact)
        with storing(part):
            if synced:
                _sync(part)
                _sync(self._manifest(artifact))
            part.replace(payload)
            if synced:
                sync_directory(self.directory)
            return _stamp(payload)

    def sync(self, artifact: ArtifactId) -> None:
        """A complete artifact; what is on stable storage already costs little."""
        with storing(self.payload(artifact)):
            _sync(self.payload(artifact))
            _sync(self._manifest(artifact))
            sync_directory(self.directory)

    def put(self, artifact: ArtifactId, manifest: Manifest, data: bytes, synced: bool) -> Stamp:
        """Writes all of an artifact."""
        with storing(self.directory):
            path = write_aside(self.directory, data, synced=synced)
        return self.take(artifact, manifest, path, synced)

    def check(self, path: Path, size_bytes: int, synced: bool) -> None:
        """A finished file; puts it on stable storage where synced."""
        with storing(path):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != size_bytes:
                raise StoreError(f"{path}: not a file of {size_bytes} bytes, as its manifest says")
            if synced:
                _sync(path)

    def take(self, artifact: ArtifactId, manifest: Manifest, path: Path, synced: bool) -> Stamp:
        """Makes a checked file of this directory the payload of an artifact."""
        if synced:
            write_synced(self._manifest(artifact), encode(manifest))
        else:
            self._write_manifest(artifact, manifest)
        with storing(path):
            path.replace(self.payload(artifact))
            self.part(artifact).unlink(missing_ok=True)
            if synced:
                sync_directory(self.directory)
            return _stamp(self.payload(artifact))

    def set_aside(self, artifact: ArtifactId) -> None:
        with storing(self.payload(artifact)):
            if self.payload(artifact).exists():
                self.payload(artifact).replace(self.damaged(artifact))
        self.remove(artifact)

    def remove(self, artifact: ArtifactId) -> None:
        for path in (self.payload(artifact), self.part(artifact), self._manifest(artifact)):
            with storing(path):
                path.unlink(missing_ok=True)

    def remove_damaged(self, artifact: ArtifactId) -> None:
        with storing(self.damaged(artifact)):
            self.damaged(artifact).unlink(missing_ok=True)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """Raises StoreError: it has a name of ours, and is something else."""
    ours = entry.name.startswith(TEMPORARY) or NAME.fullmatch(entry.name) is not None
    with storing(Path(entry.path)):
        if ours and not entry.is_symlink() and not entry.is_file():
            raise StoreError(f"{entry.path}: not a file: move it away")
    return ours


def size_of(path: Path) -> int:
    """0 where there is no file yet."""
    with storing(path):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
