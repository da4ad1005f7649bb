"""Artifacts of one revision's open window: pinned until it is decided, updates served to those who judge them only."""

from p2pd.core.artifact import ArtifactKind
from p2pd.core.ids import ArtifactId, RevisionId
from p2pd.ports import BlobStore


class WindowArtifacts:
    def __init__(self, blobs: BlobStore, revision: RevisionId) -> None:
        self._blobs = blobs
        self._owner = f"window of {revision.hex()}"
        self._kept: set[ArtifactId] = set()
        self.private: set[ArtifactId] = set()
        """Updates of the open window: for validators and reducers only, so that nobody can copy."""

    def guard(self, artifact: ArtifactId) -> None:
        """An update that is not decided."""
        self.private.add(artifact)
        self.keep(artifact)

    def keep(self, artifact: ArtifactId) -> None:
        self._kept.add(artifact)
        self._blobs.pin(artifact, self._owner)

    def let_go(self) -> None:
        for artifact in self._kept:
            self._blobs.unpin(artifact, self._owner)
        self._kept.clear()
        self.private.clear()

    def hides(self, artifact: ArtifactId) -> bool:
        if artifact not in self.private:
            return False
        manifest = self._blobs.manifest(artifact)
        # An update that names a head must not hide it.
        return manifest is None or manifest.kind is ArtifactKind.UPDATE
