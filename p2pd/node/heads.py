"""Which heads of a revision stay on this node's disk: the last ones, and every Nth for good.

Another revision may go by the same head, and needs it for as long as it says.
"""

import logging

from p2pd.core.decision import Decision, Outcome, artifacts_of
from p2pd.core.ids import ArtifactId, RevisionId
from p2pd.errors import StoreError
from p2pd.ports import BlobStore

log = logging.getLogger("p2pd.heads")

KEPT_HEADS = 8
"""The heads of the last heights stay pinned; older ones make room when the quota asks for it."""


class Heads:
    def __init__(self, blobs: BlobStore, revision: RevisionId, keep_every: int) -> None:
        self._blobs = blobs
        self._owner = f"head of {revision.hex()}"
        self._keep_every = keep_every
        self._pinned: dict[int, tuple[ArtifactId, ...]] = {}
        """By height."""

    def pin(self, decision: Decision) -> None:
        """What the newest decision certified; those that fall out of the last ones are let go."""
        step = decision.step
        certified = (*artifacts_of(decision), *((step.artifact,) if step else ()))
        self._pinned[decision.height] = certified
        for artifact in certified:
            self._blobs.pin(artifact, f"{self._owner} {decision.height}")
        for height in [h for h in self._pinned if h <= decision.height - KEPT_HEADS]:
            for old in self._pinned.pop(height):
                self._blobs.unpin(old, f"{self._owner} {height}")

    async def keep_for_good(self, decision: Decision) -> None:
        """If it is one of every Nth that were promoted."""
        every, heads = self._keep_every, decision.state.progress.heads
        promoted = heads > 0 and decision.header.outcome is Outcome.PROMOTED
        if every and promoted and heads % every == 0:
            try:
                await self._blobs.keep(decision.head)
            except StoreError as error:  # pinned all the same, for as long as this process lives
                log.warning("head %d may not be kept after a restart: %s", heads, error)
