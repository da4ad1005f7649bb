"""Who is asked for what, when providers hold parts, are slow, die or lie. Virtual seconds."""

from collections import Counter
from dataclasses import replace

import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, manifest_of
from p2pd.node.download import TransferSettings
from p2pd.node.wanted import Wanted
from p2pd.sim.links import LinkFaults
from p2pd.sim.store import MemoryBlobs
from tests.node.transfer_bench import CHUNKS, DATA, MANIFEST, SCHEMA, WANTED, Bench, Node, run


async def holder_of(bench: Bench, name: str, indexes: set[int]) -> Node:
    """A node that holds these chunks only."""
    blobs = MemoryBlobs()
    await blobs.begin(MANIFEST)
    for index in indexes:
        await blobs.write(MANIFEST.id, index, DATA[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES])
    return await bench.start(name, blobs=blobs)


def test_a_provider_is_asked_only_for_what_it_holds() -> None:
    async def scenario(bench: Bench) -> None:
        halves = [set(range(0, CHUNKS, 2)), set(range(1, CHUNKS, 2))]
        holders = [await holder_of(bench, f"half{n}", half) for n, half in enumerate(halves)]
        empty = await bench.start("empty")
        alice = await bench.start("alice")
        await alice.transfer.fetch(WANTED, await bench.link(alice, [*holders, empty]))
        for holder, half in zip(holders, halves, strict=True):
            refused = {index for index in holder.asked if index >= 0} - half
            assert len(refused) <= 1  # asked before it told
        assert sum(count for index, count in empty.asked.items() if index >= 0) <= 1

    run(scenario)


def test_what_a_provider_gets_later_is_fetched_from_it() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await holder_of(bench, "holder", {0, 1, 2})
        alice = await bench.start("alice")
        providers = await bench.link(alice, [holder])

        async def grow() -> None:
            for index in range(3, CHUNKS):
                await trio.sleep(1.0)
                start = index * CHUNK_BYTES
                await holder.blobs.write(MANIFEST.id, index, DATA[start : start + CHUNK_BYTES])

        bench.nursery.start_soon(grow)
        await alice.transfer.fetch(WANTED, providers)
        assert alice.blobs.has(MANIFEST.id)
        assert trio.current_time() < 4 * CHUNKS

    run(scenario)


def test_two_that_fetch_at_a_time_serve_each_other() -> None:
    async def scenario(bench: Bench) -> None:
        source = await bench.start("source", DATA)
        pair = [await bench.start(name) for name in ("alice", "bob")]
        for node in pair:
            bench.network.set_link("source", node.name, LinkFaults(rate_bytes_s=CHUNK_BYTES))
        async with trio.open_nursery() as nursery:
            for node, other in (pair, pair[::-1]):
                providers = await bench.link(node, [source, other])
                nursery.start_soon(node.transfer.fetch, WANTED, providers)
        assert all(node.blobs.has(MANIFEST.id) for node in pair)
        assert all(node.transfer.sent_bytes >= CHUNK_BYTES for node in pair)

    run(scenario)


def test_a_provider_that_dies_halfway_is_replaced_within_seconds_at_little_cost() -> None:
    async def scenario(bench: Bench) -> None:
        holders = [await bench.start(f"holder{n}", DATA) for n in range(2)]
        alice = await bench.start("alice")
        providers = await bench.link(alice, holders)
        for holder in holders:
            bench.network.set_link(holder.name, "alice", LinkFaults(rate_bytes_s=4 * CHUNK_BYTES))

        silent = LinkFaults(loss=1.0, failure=1.0)

        async def die_halfway() -> None:
            while holders[0].asked.total() < CHUNKS // 2:  # noqa: ASYNC110  # of virtual time
                await trio.sleep(0.01)
            bench.network.set_link("holder0", "alice", silent)
            bench.network.set_link("alice", "holder0", silent)

        bench.nursery.start_soon(die_halfway)
        await alice.transfer.fetch(WANTED, providers)
        assert trio.current_time() < 5.0
        assert holders[0].transfer.sent_bytes > 0
        assert alice.transfer.received_bytes < 1.2 * len(DATA)

    run(scenario)


def test_late_chunks_are_asked_of_idle_providers_too() -> None:
    async def scenario(bench: Bench) -> None:
        slow, quick = await bench.start("slow", DATA), await bench.start("quick", DATA)
        alice = await bench.start("alice")
        providers = await bench.link(alice, [slow, quick])
        bench.network.set_link("slow", "alice", LinkFaults(rate_bytes_s=CHUNK_BYTES / 60))
        bench.network.set_link("quick", "alice", LinkFaults(rate_bytes_s=20 * CHUNK_BYTES))
        await alice.transfer.fetch(WANTED, providers)
        assert trio.current_time() < TransferSettings().patience_least_s
        assert any(count > 0 and quick.asked[index] for index, count in slow.asked.items())
        assert quick.asked.total() <= CHUNKS + 1

    run(scenario)


def test_who_sent_wrong_bytes_once_is_asked_for_nothing_else_while_others_answer() -> None:
    async def scenario(bench: Bench) -> None:
        liar, honest = await bench.start("liar", DATA), await bench.start("honest", DATA)
        alice = await bench.start("alice")
        providers = await bench.link(alice, [liar, honest])
        alice.transfer.faults[liar.transport.peer] = 1
        await alice.transfer.fetch(WANTED, providers)
        assert liar.asked == Counter()

    run(scenario)


def test_who_sent_wrong_bytes_once_is_asked_where_nobody_else_answers() -> None:
    async def scenario(bench: Bench) -> None:
        liar, empty = await bench.start("reformed", DATA), await bench.start("empty")
        alice = await bench.start("alice")
        providers = await bench.link(alice, [liar, empty])
        alice.transfer.faults[liar.transport.peer] = 1
        await alice.transfer.fetch(WANTED, providers)
        assert alice.blobs.has(MANIFEST.id)

    run(scenario)


@pytest.mark.parametrize("lanes", [1, 3])
def test_requests_that_time_out_together_double_the_patience_once(lanes: int) -> None:
    async def scenario(bench: Bench) -> None:
        settings = TransferSettings(lanes=lanes, patience_first_s=4.0, patience_most_s=1000.0)
        stalling = await bench.start("stalling", DATA)
        alice = await bench.start("alice", settings=settings)
        providers = await bench.link(alice, [stalling])
        with trio.move_on_after(5.0):
            await alice.transfer.fetch(WANTED, providers)
            pytest.fail("nothing can have come")
        bench.nursery.start_soon(alice.transfer.fetch, WANTED, providers)
        await trio.sleep(5.0)
        (download,) = alice.transfer._downloads.values()
        assert download.patience_s == 8.0

    run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_an_update_that_was_just_made_is_asked_of_its_owner_and_of_nobody_else(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        owner = await bench.start("owner")
        update = await owner.blobs.put(ArtifactKind.UPDATE, SCHEMA, b"steps", owner.transport.peer)
        others = [await bench.start(f"other{n}") for n in range(5)]
        alice = await bench.start(f"alice {seed}")
        named = await bench.link(alice, [*others[:3], owner])
        linked = await bench.link(alice, others)
        wanted = Wanted(update, ArtifactKind.UPDATE, SCHEMA, 100, owner.transport.peer)
        await alice.transfer.fetch(wanted, named, others=linked)
        assert owner.asked == Counter([0])
        assert [other.asked.total() for other in others] == [0] * 5

    run(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_who_is_named_is_asked_before_who_is_merely_linked_and_those_before_who_is_far(
    seed: int,
) -> None:
    async def scenario(bench: Bench) -> None:
        small = manifest_of(ArtifactKind.HEAD, SCHEMA, b"small")
        wanted = replace(WANTED, artifact=small.id)
        named, linked = [await bench.start(name, b"small") for name in ("named", "linked")]
        far = await bench.start("far", b"small")
        alice = await bench.start(f"alice {seed}")
        await bench.link(alice, [named, linked])
        providers = [far.transport.peer, named.transport.peer]
        await alice.transfer.fetch(wanted, providers, others=[linked.transport.peer])
        assert named.asked == Counter([-1, 0])
        assert far.asked.total() == linked.asked.total() == 0

        bob = await bench.start(f"bob {seed}")
        await bench.link(bob, [linked])
        await bob.transfer.fetch(wanted, providers, others=[linked.transport.peer])
        assert linked.asked == Counter([-1, 0])
        assert far.asked.total() == 0

    run(scenario, seed=seed)
