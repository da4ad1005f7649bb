"""Artifacts as files: how this node's subprocesses get at tensors without moving them."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from p2pd.core.artifact import Manifest
from p2pd.core.ids import ArtifactId


class ArtifactFiles(Protocol):
    async def all_sound(self, artifacts: Sequence[ArtifactId]) -> list[Path]:
        """The files of several artifacts, as sound gives each."""
        ...

    async def sound(self, artifact: ArtifactId) -> Path:
        """The file of a complete artifact: its raw bytes, to be read only, and hashed since they changed.

        Raises:
            StoreError: it is not here, not complete, or was damaged and is gone now.
        """
        ...

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        """Also of an artifact that is not complete yet."""
        ...

    def output(self, suffix: str, size_bytes: int) -> AbstractAsyncContextManager[Path]:
        """A fresh path in the store's directory, with room for a file of that size.

        What is there when the context ends, and was not adopted, is removed; a start removes what a crash left.

        Raises:
            NoRoomError: quota or disk reserve would be exceeded.
        """
        ...

    async def adopt(self, path: Path, manifest: Manifest) -> ArtifactId:
        """Moves a finished file into the store. Trusts its content: our own subprocess wrote it.

        Raises:
            StoreError: another size, or quota or disk reserve would be exceeded; the file stays.
        """
        ...
