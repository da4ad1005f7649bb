"""Artifacts of simulated nodes as files in one directory, for code that maps tensors from files."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from p2pd.core.artifact import Manifest
from p2pd.core.ids import ArtifactId, short
from p2pd.errors import LocalError, StoreError
from p2pd.sim.store import MemoryBlobs

FILES_MOST = 256
"""More than any merge reads. The oldest goes first, and comes back from a store when it is wanted again."""


class Shelf:
    """One for all nodes: an artifact is the same in each store. A node gets the files of what its own store holds."""

    def __init__(self, directory: Path, files_most: int = FILES_MOST) -> None:
        self.directory = directory
        self._files_most = files_most
        self._files: dict[ArtifactId, Path] = {}
        """Least recently used first."""
        self._numbers = itertools.count()

    async def path(self, blobs: MemoryBlobs, artifact: ArtifactId) -> Path:
        """
        Raises:
            StoreError: this node's store does not hold it, or it was damaged there.
        """
        if not await blobs.check(artifact):
            raise StoreError(f"artifact {short(artifact)} is not complete: fetch it first")
        path = self._files.pop(artifact, None)
        if path is None:
            path = self.fresh()
            path.write_bytes(blobs.payload(artifact))
        self._keep(artifact, path)
        return path

    async def paths(
        self, blobs: MemoryBlobs, artifacts: Iterable[ArtifactId]
    ) -> dict[ArtifactId, Path]:
        return {one: await self.path(blobs, one) for one in sorted(set(artifacts))}

    def fresh(self) -> Path:
        """Where a new file may be written."""
        return self.directory / f"{next(self._numbers)}.safetensors"

    async def adopt(
        self, blobs: MemoryBlobs, path: Path, manifest: Manifest, owner: bytes = b""
    ) -> ArtifactId:
        """Puts a file that was written at a fresh path into a node's store."""
        artifact = await blobs.put(manifest.kind, manifest.schema, _read(path), owner)
        if artifact != replace(manifest, owner=owner).id:
            raise LocalError(f"{path} is not what its manifest says")
        self._files.pop(artifact, None)
        self._keep(artifact, path)
        return artifact

    def _keep(self, artifact: ArtifactId, path: Path) -> None:
        self._files[artifact] = path
        while len(self._files) > self._files_most:
            self._files.pop(next(iter(self._files))).unlink()


def _read(path: Path) -> bytes:
    """At once: no virtual time passes for it."""
    return path.read_bytes()
