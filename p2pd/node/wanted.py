"""What a download is to bring."""

from dataclasses import dataclass

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId, short
from p2pd.errors import RemoteError


@dataclass(frozen=True, slots=True)
class Wanted:
    """An artifact, and what it must turn out to be."""

    artifact: ArtifactId
    kind: ArtifactKind
    schema: bytes | None
    """None takes any."""
    max_bytes: int
    owner: bytes = b""
    """Whose update it must be; empty for other kinds."""

    @property
    def is_whole(self) -> bool:
        """It is of one chunk, whose bytes say all that its manifest does."""
        return self.schema is not None and self.max_bytes <= CHUNK_BYTES

    def check(self, manifest: Manifest) -> None:
        """Raises RemoteError: the id names something else, which no provider can change."""
        name = short(self.artifact)
        if manifest.kind is not self.kind:
            raise RemoteError(f"artifact {name} is {manifest.kind.name}, not {self.kind.name}")
        if manifest.owner != self.owner:
            raise RemoteError(f"artifact {name} belongs to {short(manifest.owner) or 'nobody'}")
        if self.schema is not None and manifest.schema != self.schema:
            raise RemoteError(f"artifact {name} is of another model schema")
        if manifest.size_bytes > self.max_bytes:
            raise RemoteError(
                f"artifact {name} of {manifest.size_bytes} bytes exceeds {self.max_bytes} bytes"
            )
