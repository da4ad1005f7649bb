"""The broken ports break what they should, and nothing else."""

from random import Random

import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.encoding import encode
from p2pd.core.work import InspectJob, Merged, MergeJob
from p2pd.ports import Table, Write
from p2pd.sim.broken import LAZY_S, ArrivalMath, LazyLedger
from p2pd.sim.run import run_seeded
from p2pd.sim.scripted import SCHEMA, START, ScriptedMath, Vector
from p2pd.sim.store import MemoryBlobs, MemoryLedger
from tests.sim.test_scripted import merge_of

VOTE = Write(Table.VOTING, b"height 1", b"voted")
OTHER = Write(Table.DECISIONS, b"height 0", b"decided")


def test_a_lazy_ledger_promises_votes_that_a_crash_still_takes() -> None:
    async def main() -> None:
        kept = MemoryLedger()
        lazy = LazyLedger(kept)
        await lazy.commit([VOTE, OTHER])
        assert kept.get(*_place(OTHER)) == b"decided"
        assert lazy.get(*_place(VOTE)) is None
        await trio.sleep(LAZY_S)
        await lazy.commit([])
        assert lazy.get(*_place(VOTE)) == b"voted"
        assert lazy.last(Table.DECISIONS, b"h") == (b"height 0", b"decided")
        assert lazy.scan(Table.VOTING, b"h") == [(b"height 1", b"voted")]

    assert run_seeded(0, main, 60.0)


def _place(write: Write) -> tuple[Table, bytes]:
    return write.table, write.key


def test_an_order_of_arrival_decides_what_is_merged_to() -> None:
    async def merged(order: tuple[int, int, int]) -> tuple[Merged, list[MergeJob]]:
        blobs, told = MemoryBlobs(), list[MergeJob]()
        base = await blobs.put(ArtifactKind.HEAD, SCHEMA.id, encode(START))
        ends = [
            await blobs.put(ArtifactKind.UPDATE, SCHEMA.id, encode(Vector((n, n, n, n))))
            for n in (0, 5, 11)
        ]
        math = ArrivalMath(ScriptedMath(blobs, Random(1)), lambda job, _: told.append(job))
        for n in order:
            await math.inspect(InspectJob(ends[n], base, SCHEMA))
        job = merge_of(base, *((end, 1) for end in ends))
        result = await math.merge(job)
        assert told == [job]
        return result, told

    async def main() -> None:
        one, _ = await merged((0, 1, 2))
        again, _ = await merged((0, 1, 2))
        other, _ = await merged((2, 1, 0))
        assert one == again != other

    assert run_seeded(0, main, 60.0)
