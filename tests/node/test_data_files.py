import pytest
import trio

from p2pd.errors import NoRoomError, RemoteError
from p2pd.sim.store import MemoryBlobs
from tests.node.data_bench import FILE_BYTES, SET, TRAIN, data_of, files, give, held
from tests.node.transfer_bench import Bench, run


def test_what_is_asked_for_is_brought_and_nothing_else() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        data = data_of(alice)
        assert await data.find(SET.id) == SET
        before = alice.transfer.received_bytes
        await data.bring(files(1, 5), "lease")
        assert held(alice) == [1, 5]
        assert alice.transfer.received_bytes - before == len(TRAIN[1]) + len(TRAIN[5])
        assert (data.brought_files, data.brought_bytes) == (2, len(TRAIN[1]) + len(TRAIN[5]))
        await data.bring(files(5, 1), "lease")
        assert alice.transfer.received_bytes - before == len(TRAIN[1]) + len(TRAIN[5])

    run(scenario)


def test_those_who_trained_on_a_file_give_it_to_others() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice, bob = [await bench.start(name) for name in ("giver", "alice", "bob")]
        await give(giver)
        await bench.link(alice, [giver])
        await data_of(alice).bring(files(3), "lease")
        giver.life.cancel()
        await bench.link(bob, [alice])
        await data_of(bob).bring(files(3), "lease")
        assert held(bob) == [3]

    run(scenario)


def test_i08_a_liar_is_blamed_and_the_files_come_from_another() -> None:
    async def scenario(bench: Bench) -> None:
        liar, giver, alice = [await bench.start(name) for name in ("garbage", "giver", "alice")]
        await give(giver)
        await bench.link(alice, [liar, giver])
        await data_of(alice).bring(files(*range(8)), "lease")
        assert held(alice) == list(range(8))
        assert set(alice.transfer.faults) == {liar.transport.peer}

    run(scenario)


def test_it_tries_again_until_somebody_has_what_is_wanted() -> None:
    async def scenario(bench: Bench) -> None:
        late, alice = await bench.start("late"), await bench.start("alice")
        data = data_of(alice)
        with trio.move_on_after(5.0):
            await data.bring(files(0), "lease")
        assert "there are no providers" in data.last_failure
        await bench.link(alice, [late])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(data.bring, files(0), "lease")
            await trio.sleep(5.0)
            assert "not served here" in data.last_failure
            await give(late)
        assert held(alice) == [0]

    run(scenario)


def test_the_least_recently_used_make_room_and_what_is_pinned_stays() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        data = data_of(alice, quota_bytes=4 * FILE_BYTES)
        for lease in (0, 1, 2, 3):
            await data.bring(files(lease), f"lease {lease}")
        for lease in (0, 1, 2):
            data.let_go(f"lease {lease}")
        await data.bring(files(0), "again")  # used: 1 and 2 go before it
        data.let_go("again")
        await data.bring(files(4, 5), "lease")
        assert held(alice) == [0, 3, 4, 5]
        with pytest.raises(NoRoomError, match=r"2 files of data take .* data.quota_bytes: raise"):
            await data.bring(files(6, 7), "next")
        assert held(alice) == [0, 3, 4, 5]  # what would not help is not dropped
        data.let_go("lease")
        data.let_go("next")
        await data.bring(files(6, 7), "next")
        assert held(alice) == [3, 5, 6, 7]

    run(scenario)


def test_a_lease_larger_than_the_quota_is_refused_before_anything_is_fetched() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        with pytest.raises(NoRoomError, match="raise it, or lease less"):
            await data_of(alice, quota_bytes=FILE_BYTES).bring(files(0, 1), "lease")
        assert alice.transfer.received_bytes == 0

    run(scenario)


def test_a_full_store_ends_it_at_once_with_the_stores_own_words() -> None:
    async def scenario(bench: Bench) -> None:
        alice = await bench.start("alice", blobs=MemoryBlobs(quota_bytes=FILE_BYTES))
        with pytest.raises(NoRoomError, match="exceed the quota"):
            await data_of(alice).bring(files(0, 1), "lease")

    run(scenario)


def test_an_id_that_names_something_else_is_no_set() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        with pytest.raises(RemoteError, match="is SHARD, not SHARD_SET"):
            await data_of(alice).find(files(0)[0].manifest.id)

    run(scenario)
