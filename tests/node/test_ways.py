"""By which steps a head is reached from those that are here."""

from dataclasses import replace

import pytest

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.decision import Decision, Record
from p2pd.core.ids import ArtifactId
from p2pd.core.work import HeadStep, Merged, RebuildJob
from p2pd.node.chronicle import Chronicle
from p2pd.node.ways import STEPS_MOST, ways_to
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryBlobs, MemoryLedger
from tests.core.builders import (
    SETTING,
    TRAINERS,
    all_present,
    choices,
    follow,
    record,
    running,
    update,
)

IN_STEPS = replace(SETTING, revision=replace(SETTING.revision, head_codec="int8"))
HEIGHTS = 5


def chain() -> list[Decision]:
    """The first deals leases; each later one but one promotes a head."""
    found = [running(trainers=2, setting=IN_STEPS)]
    for height in range(2, HEIGHTS + 2):
        last = found[-1]
        updates = [] if height == 4 else [update(last, TRAINERS[0], IN_STEPS)]
        here = all_present(last, setting=IN_STEPS)
        found.append(follow(last, choices(last, updates, here), IN_STEPS))
    return found


CHAIN = chain()
HEADS = [one for n, one in enumerate(CHAIN) if n == 0 or one.head != CHAIN[n - 1].head]


def found(head: ArtifactId, held: list[bytes], records: list[Record]) -> list[RebuildJob]:
    """held: contents of heads that are here, under the names that the blob store gives them."""
    ways: list[RebuildJob] = []

    async def main() -> None:
        chronicle, blobs = Chronicle(MemoryLedger(), IN_STEPS), MemoryBlobs()
        await chronicle.last()
        for one in records:
            await chronicle.adopt(one)
        for data in held:
            await blobs.put(ArtifactKind.HEAD, IN_STEPS.revision.schema.id, data)
        ways.extend(ways_to(head, IN_STEPS.revision, chronicle, blobs))

    assert run_seeded(0, main, 10.0)
    return ways


def named(data: bytes) -> ArtifactId:
    return manifest_of(ArtifactKind.HEAD, IN_STEPS.revision.schema.id, data).id


def rebased(base: bytes) -> list[Record]:
    """The chain with its second head made of one that the store can hold."""
    records = [record(one, IN_STEPS) for one in CHAIN]
    at = CHAIN.index(HEADS[1])
    merged = CHAIN[at].merged
    assert isinstance(merged, Merged)
    assert merged.step is not None
    step = HeadStep(named(base), merged.step.artifact)
    other = replace(CHAIN[at], merged=replace(merged, step=step))
    records[at] = Record(other, records[at].certificate)
    return records


def test_a_head_is_reached_by_the_steps_from_the_newest_one_that_is_here() -> None:
    records = rebased(b"the first")
    for steps in (1, 2, STEPS_MOST):
        ways = found(HEADS[steps].head, [b"the first"], records)
        assert [way.head for way in ways] == [one.head for one in HEADS[1 : steps + 1]]
        assert ways[0].step.base == named(b"the first")
        assert [way.step.base for way in ways[1:]] == [way.head for way in ways[:-1]]


def test_further_back_a_whole_head_weighs_less() -> None:
    assert len(HEADS) > STEPS_MOST + 1
    assert found(HEADS[STEPS_MOST + 1].head, [b"the first"], rebased(b"the first")) == []


@pytest.mark.parametrize("held", [[], [b"another"]])
def test_who_lacks_the_base_has_no_way(held: list[bytes]) -> None:
    assert found(HEADS[1].head, held, rebased(b"the first")) == []


def test_a_head_that_is_here_or_that_nobody_certified_has_no_way() -> None:
    records = rebased(b"the first")
    assert found(named(b"the first"), [b"the first"], records) == []
    assert found(ArtifactId(bytes(32)), [b"the first"], records) == []
