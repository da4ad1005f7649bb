"""Artifacts as files: how this node's subprocesses get at tensors without moving them."""

from pathlib import Path
from typing import Protocol

from p2pd.core.artifact import Manifest
from p2pd.core.ids import ArtifactId


class ArtifactFiles(Protocol):
    def path(self, artifact: ArtifactId) -> Path:
        """The file of a complete artifact: its raw bytes, to be read only.

        Raises:
            StoreError: it is not here, or not complete.
        """
        ...

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        """Also of an artifact that is not complete yet."""
        ...

    def temporary(self, suffix: str) -> Path:
        """A fresh path in the store's directory. What a crash leaves there is removed at start."""
        ...

    async def adopt(self, path: Path, manifest: Manifest) -> ArtifactId:
        """Moves a finished file into the store. Trusts its content: our own subprocess wrote it.

        Raises:
            StoreError: another size, or quota or disk reserve would be exceeded; the file stays.
        """
        ...
