"""A node on a full disk: what it says, what it does not say, and that it goes on."""

from collections.abc import Sequence

import pytest
import trio

from p2pd.core.health import Health
from p2pd.errors import NoRoomError, StoreError
from p2pd.node.patience import PatientLedger, Room
from p2pd.ports import Table, Write
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryBlobs, MemoryLedger, Moment
from tests.core.builders import STRANGER, TRAINERS, VALIDATORS, record
from tests.node.lane_bench import FIRST, MINE, SECOND, with_chain
from tests.node.node_bench import Bench, on_bench


class Disk:
    """What a full one does to a commit."""

    def __init__(self, *, full: bool = True, error: type[StoreError] = NoRoomError) -> None:
        self.full = full
        self._error = error

    def strike(self, moment: Moment, writes: Sequence[Write]) -> None:
        if self.full and moment is Moment.BEFORE:
            raise self._error("ledger.sqlite: the disk is full: free some space")


def test_commits_wait_for_room_in_their_order_and_nothing_else_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, memory, health = Disk(), MemoryLedger(), Health()
    memory.hook = disk.strike
    ledger = PatientLedger(memory, health)
    done: list[bytes] = []

    async def commit(value: bytes) -> None:
        await ledger.commit([Write(Table.PEERS, b"key", value)])
        done.append(value)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for value in (b"1", b"2", b"3"):
                nursery.start_soon(commit, value)
                await trio.sleep(0.1)
            await trio.sleep(60.0)
            assert done == []
            assert ledger.get(Table.PEERS, b"key") is None
            assert health.troubles() == (
                "ledger: ledger.sqlite: the disk is full: free some space",
            )
            disk.full = False
        assert done == [b"1", b"2", b"3"]
        assert ledger.scan(Table.PEERS, b"") == [(b"key", b"3")]
        assert ledger.last(Table.PEERS, b"") == (b"key", b"3")
        assert health.troubles() == ()

    with caplog.at_level("INFO", "p2pd.room"):
        assert run_seeded(0, main, 300.0)
    assert [record.getMessage() for record in caplog.records] == [
        "ledger.sqlite: the disk is full: free some space",
        "ledger: there is room again",
    ]


def test_a_disk_that_fails_otherwise_is_not_waited_for() -> None:
    memory = MemoryLedger()
    memory.hook = Disk(error=StoreError).strike

    async def main() -> None:
        with pytest.raises(StoreError):
            await PatientLedger(memory, Health()).commit([])

    assert run_seeded(0, main, 300.0)


def test_the_newest_reason_is_shown_and_each_lack_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = Health()
    room = Room(health, "store")
    with caplog.at_level("INFO", "p2pd.room"):
        for error in (NoRoomError("5 lacking"), NoRoomError("7 lacking"), None, None):
            room.say(error)
            if error is not None:
                assert health.troubles() == (f"store: {error}",)
    assert health.troubles() == ()
    assert [one.getMessage() for one in caplog.records] == [
        "5 lacking",
        "store: there is room again",
    ]


def test_i10_what_cannot_be_written_is_not_sent_and_goes_out_once_it_can() -> None:
    async def main(bench: Bench) -> None:
        disk, ledger = Disk(full=False), MemoryLedger()
        ledger.hook = disk.strike
        mine = await bench.start("mine", TRAINERS[0], "trainer", ledger=ledger)
        other = await with_chain(bench, "other", FIRST)
        await bench.link(mine, other)
        await trio.sleep(5.0)
        assert mine.lane.decision.id == FIRST.id
        disk.full = True
        bench.nursery.start_soon(mine.lane.publish, MINE)
        await trio.sleep(30.0)
        assert mine.lane.own_objects() == ()
        assert MINE.id not in other.lane.pool.held
        assert mine.node.health.troubles() != ()
        disk.full = False
        await trio.sleep(5.0)
        assert mine.lane.own_objects() == (MINE,)
        assert MINE.id in other.lane.pool.held
        assert mine.node.health.troubles() == ()

    on_bench(main)


def test_a_node_without_room_adopts_nothing_and_catches_up_once_there_is_some() -> None:
    async def main(bench: Bench) -> None:
        disk, ledger = Disk(full=False), MemoryLedger()
        ledger.hook = disk.strike
        new = await bench.start("new", STRANGER, "viewer", ledger=ledger)
        disk.full = True
        old = await with_chain(bench, "old", FIRST, SECOND)
        await bench.link(new, old)
        await trio.sleep(60.0)
        assert new.lane.decision.height == 0
        disk.full = False
        await trio.sleep(10.0)
        assert new.lane.decision.id == SECOND.id

    on_bench(main)


def test_every_so_many_promoted_heads_one_is_kept_for_good() -> None:
    async def main(bench: Bench) -> None:
        second = (SECOND.state.progress.heads, SECOND.head)
        assert second[0] == 1
        for every, kept in ((0, set()), (1, {SECOND.head}), (2, set())):
            blobs = MemoryBlobs()
            one = await bench.start(f"every {every}", VALIDATORS[0], blobs=blobs, keep_every=every)
            for decision in (FIRST, SECOND):
                await one.lane.adopt(record(decision))
            assert blobs.kept == kept
            one.life.cancel()

    on_bench(main)


def test_a_head_whose_mark_a_crash_took_is_marked_at_the_next_start() -> None:
    async def main(bench: Bench) -> None:
        ledger, blobs = MemoryLedger(), MemoryBlobs()
        one = await bench.start("one", VALIDATORS[0], ledger=ledger)
        for decision in (FIRST, SECOND):
            await one.lane.adopt(record(decision))
        one.life.cancel()
        await trio.sleep(1.0)
        await bench.start("again", VALIDATORS[0], ledger=ledger, blobs=blobs, keep_every=1)
        assert blobs.kept == {SECOND.head}

    on_bench(main)
