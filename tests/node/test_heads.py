"""Heads stay as long as a revision needs them, whatever other revisions on this node do with the same ones."""

from dataclasses import replace

import pytest

from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import Decision
from p2pd.core.ids import ArtifactId, RevisionId
from p2pd.errors import NoRoomError
from p2pd.node.heads import KEPT_HEADS, Heads
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryBlobs
from tests.core.builders import GENESIS

SCHEMA = bytes(32)


def decision(height: int, head: ArtifactId) -> Decision:
    return replace(GENESIS, header=replace(GENESIS.header, height=height, head=head))


def test_a_revision_that_goes_on_takes_no_head_from_one_that_waits_at_it() -> None:
    async def main() -> None:
        blobs = MemoryBlobs(quota_bytes=10)
        start = await blobs.put(ArtifactKind.HEAD, SCHEMA, b"the start")
        later = await blobs.put(ArtifactKind.HEAD, SCHEMA, b"")
        waits, goes_on = (Heads(blobs, RevisionId(bytes([n]) * 32), 0) for n in range(2))
        waits.pin(decision(0, start))
        goes_on.pin(decision(0, start))
        for height in range(1, KEPT_HEADS + 1):
            goes_on.pin(decision(height, later))
        with pytest.raises(NoRoomError):
            await blobs.put(ArtifactKind.HEAD, SCHEMA, b"another")
        for height in range(1, KEPT_HEADS + 1):
            waits.pin(decision(height, later))
        await blobs.put(ArtifactKind.HEAD, SCHEMA, b"another")
        assert not blobs.has(start)

    assert run_seeded(0, main, 60.0)
