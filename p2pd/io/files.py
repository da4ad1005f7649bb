"""Artifacts as files: how the subprocesses of this node get at tensors without moving them through messages."""

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
        """A path for a new file in the store's directory; what is left under it after a crash is removed at start."""
        ...

    async def adopt(self, path: Path, manifest: Manifest) -> ArtifactId:
        """Moves a finished file into the store. The caller vouches for the content: it comes from our own subprocess.

        Raises:
            StoreError: the file has another size, or quota or disk reserve would be exceeded; the file stays.
        """
        ...
