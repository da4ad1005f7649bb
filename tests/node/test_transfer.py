from collections import Counter
from dataclasses import replace
from random import Random

import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, manifest_of
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, PeerId
from p2pd.errors import RemoteError, StoreError, UnreachableError
from p2pd.node.download import TransferSettings
from p2pd.node.transfer import Transfer
from p2pd.node.wanted import Wanted
from p2pd.ports import Link
from p2pd.sim.links import LinkFaults
from p2pd.sim.store import MemoryBlobs
from tests.node.transfer_bench import CHUNKS, DATA, MANIFEST, SCHEMA, WANTED, Bench, Node, run


def test_an_artifact_comes_from_several_providers_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        holders = [await bench.start(f"holder{n}", DATA) for n in range(3)]
        alice = await bench.start("alice")
        providers = await bench.link(alice, holders)
        assert await alice.transfer.fetch(WANTED, providers) == MANIFEST
        assert alice.blobs.payload(MANIFEST.id) == DATA
        assert all(len(holder.asked - Counter([-1])) >= 2 for holder in holders)
        assert sum((holder.asked for holder in holders), Counter[int]()) == Counter(
            range(-1, CHUNKS)
        )
        assert alice.transfer.received_bytes == len(DATA) + len(encode(MANIFEST))
        sent_bytes = sum(holder.transfer.sent_bytes for holder in holders)
        assert sent_bytes == alice.transfer.received_bytes
        assert alice.transfer.downloads() == ()
        assert await alice.transfer.fetch(WANTED, []) == MANIFEST

    run(scenario)


def test_i08_a_provider_that_serves_garbage_is_dropped_and_the_artifact_still_comes() -> None:
    async def scenario(bench: Bench) -> None:
        holders = [await bench.start(name, DATA) for name in ("garbage", "impostor", "honest")]
        alice = await bench.start("alice")
        providers = await bench.link(alice, holders)
        await alice.transfer.fetch(WANTED, providers)
        assert alice.blobs.payload(MANIFEST.id) == DATA
        garbage = holders[0].transport.peer
        assert 1 <= alice.transfer.faults[garbage] <= TransferSettings().lanes
        asked = holders[0].asked.total()

        again = MemoryBlobs()
        alice.transfer._blobs = again  # the artifact is lost, what is known of providers is not
        await alice.transfer.fetch(WANTED, providers)
        assert again.has(MANIFEST.id)
        assert holders[0].asked.total() == asked

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_an_impostor_of_a_manifest_is_never_believed(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        impostor = await bench.start("impostor", DATA)
        alice = await bench.start("alice")
        providers = await bench.link(alice, [impostor])
        with pytest.raises(UnreachableError, match="sent wrong bytes"):
            await alice.transfer.fetch(WANTED, providers, rounds=3)
        assert impostor.asked == Counter([-1])

    run(scenario, seed=seed)


SMALL = replace(WANTED, artifact=manifest_of(ArtifactKind.HEAD, SCHEMA, b"small").id, max_bytes=9)


def test_what_is_of_one_chunk_comes_with_one_request() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", b"small")
        alice = await bench.start("alice")
        providers = await bench.link(alice, [holder])
        await alice.transfer.fetch(SMALL, providers)
        assert alice.blobs.payload(SMALL.artifact) == b"small"
        assert holder.asked == Counter([0])
        assert alice.transfer.faults == {}

    run(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_i08_an_only_chunk_that_does_not_fit_is_not_kept_and_its_manifest_says_who_is_wrong(
    seed: int,
) -> None:
    async def scenario(bench: Bench) -> None:
        liar, holder = [await bench.start(name, b"small") for name in ("garbage", "holder")]
        alice = await bench.start("alice")
        (first,) = await bench.link(alice, [liar])
        with pytest.raises(UnreachableError, match="sent wrong bytes"):
            await alice.transfer.fetch(SMALL, [first], rounds=1)
        assert not alice.blobs.has(SMALL.artifact)
        assert liar.asked == Counter([0, -1, 0])
        assert alice.transfer.faults == {first: 1}
        await alice.transfer.fetch(SMALL, await bench.link(alice, [holder]))
        assert alice.blobs.has(SMALL.artifact)

    run(scenario, seed=seed)


def test_what_names_something_else_than_is_wanted_is_nobodys_fault() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", b"small")
        alice = await bench.start("alice")
        providers = await bench.link(alice, [holder])
        with pytest.raises(RemoteError, match="is HEAD, not UPDATE"):
            await alice.transfer.fetch(replace(SMALL, kind=ArtifactKind.UPDATE), providers)
        assert alice.transfer.faults == {}

    run(scenario)


def test_a_provider_that_stalls_is_replaced() -> None:
    async def scenario(bench: Bench) -> None:
        holders = [await bench.start(name, DATA) for name in ("stalling", "quick")]
        alice = await bench.start("alice")
        providers = await bench.link(alice, holders)
        await alice.transfer.fetch(WANTED, providers)
        assert alice.blobs.has(MANIFEST.id)
        assert holders[0].asked.total() >= 1
        assert alice.transfer.faults == {}
        assert trio.current_time() < 2 * TransferSettings().patience_first_s

    run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_a_provider_that_went_without_a_word_holds_up_nothing_for_long(seed: int) -> None:
    """Its link looks alive for most of a minute: longer than many a window."""

    async def scenario(bench: Bench) -> None:
        small = manifest_of(ArtifactKind.HEAD, SCHEMA, b"small")
        holders = [await bench.start(name, b"small") for name in ("mute", "quick")]
        alice = await bench.start(f"alice {seed}")
        providers = await bench.link(alice, holders)
        await alice.transfer.fetch(replace(WANTED, artifact=small.id), providers)
        assert trio.current_time() < 2 * TransferSettings().hedge_s

    run(scenario, seed=seed)


def test_a_slow_link_is_given_the_time_that_it_takes() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", DATA)
        alice = await bench.start("alice")
        providers = await bench.link(alice, [holder])
        bench.network.set_link("holder", "alice", LinkFaults(rate_bytes_s=CHUNK_BYTES / 20))
        await alice.transfer.fetch(WANTED, providers)
        assert alice.blobs.has(MANIFEST.id)
        assert holder.asked.total() < 3 * CHUNKS

    run(scenario)


def test_two_fetches_share_one_download() -> None:
    async def scenario(bench: Bench) -> None:
        holder, other = await bench.start("holder", DATA), await bench.start("other", DATA)
        alice = await bench.start("alice")
        await bench.link(alice, [holder, other])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(alice.transfer.fetch, WANTED, [holder.transport.peer])
            nursery.start_soon(alice.transfer.fetch, WANTED, [other.transport.peer])
        assert holder.asked + other.asked == Counter(range(-1, CHUNKS))
        assert len(holder.asked) > 1
        assert len(other.asked) > 1

    run(scenario)


def test_a_shared_download_goes_on_when_the_first_to_ask_leaves() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", DATA)
        alice = await bench.start("alice")
        providers = await bench.link(alice, [holder])
        bench.network.set_link("holder", "alice", LinkFaults(rate_bytes_s=CHUNK_BYTES))
        start_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(2.5):
                nursery.start_soon(fetch_later, alice, providers)
                await alice.transfer.fetch(WANTED, providers)
            (view,) = alice.transfer.downloads()
            assert view.size_bytes == len(DATA)
            assert 0 < view.missing_chunks < CHUNKS
        assert trio.current_time() - start_s > 2.5
        assert alice.blobs.has(MANIFEST.id)
        assert holder.asked.total() <= 1 + CHUNKS + TransferSettings().lanes

    async def fetch_later(alice: Node, providers: list[PeerId]) -> None:
        await trio.sleep(0.5)
        await alice.transfer.fetch(WANTED, providers)

    run(scenario)


def test_i10_a_restarted_node_asks_only_for_what_is_missing() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", DATA)
        alice = await bench.start("alice")
        providers = await bench.link(alice, [holder])
        bench.network.set_link("holder", "alice", LinkFaults(rate_bytes_s=CHUNK_BYTES))
        with trio.move_on_after(2.5):
            await alice.transfer.fetch(WANTED, providers)
        alice.life.cancel()
        alice.blobs.crash(Random(1))
        missing = alice.blobs.missing(MANIFEST.id)
        assert 0 < len(missing) < CHUNKS
        holder.asked.clear()

        again = await bench.start("alice", blobs=alice.blobs)
        await again.transfer.fetch(WANTED, await bench.link(again, [holder]))
        assert again.blobs.payload(MANIFEST.id) == DATA
        assert holder.asked == Counter(missing)

    run(scenario)


def test_what_nobody_serves_is_given_up_after_some_rounds_or_waited_for() -> None:
    async def scenario(bench: Bench) -> None:
        empty, late = await bench.start("empty"), await bench.start("late", DATA)
        alice = await bench.start("alice")
        await bench.link(alice, [empty, late])
        with pytest.raises(UnreachableError, match="no providers"):
            await alice.transfer.fetch(WANTED, [alice.transport.peer], rounds=1)
        with pytest.raises(UnreachableError, match="not served here"):
            await alice.transfer.fetch(WANTED, [empty.transport.peer], rounds=3)
        assert empty.asked == Counter({-1: 3})

        async def offer_late() -> None:
            await trio.sleep(100.0)
            alice.transfer.offer(MANIFEST.id, [late.transport.peer])

        bench.nursery.start_soon(offer_late)
        await alice.transfer.fetch(WANTED, [])
        assert trio.current_time() > 100.0
        alice.transfer.offer(MANIFEST.id, [late.transport.peer])  # nothing left to do

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_download_survives_bad_links(seed: int) -> None:
    async def scenario(bench: Bench) -> None:
        holders = [await bench.start(f"holder{n}", DATA) for n in range(2)]
        alice = await bench.start("alice")
        providers = await bench.link(alice, holders)
        bench.network.set_faults(LinkFaults(loss=0.3, failure=0.4, delay_max_s=1.0))

        async def die() -> None:
            await trio.sleep(2.0)
            holders[0].life.cancel()

        bench.nursery.start_soon(die)
        await alice.transfer.fetch(WANTED, providers)
        assert alice.blobs.payload(MANIFEST.id) == DATA

    run(scenario, seed=seed)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Wanted(MANIFEST.id, ArtifactKind.UPDATE, SCHEMA, 2**30), "is HEAD, not UPDATE"),
        (Wanted(MANIFEST.id, ArtifactKind.HEAD, b"x" * 32, 2**30), "another model schema"),
        (Wanted(MANIFEST.id, ArtifactKind.HEAD, None, len(DATA) - 1), "exceeds"),
    ],
)
def test_i08_what_is_not_wanted_is_refused_before_its_chunks_are_asked_for(
    wanted: Wanted, why: str
) -> None:
    async def scenario(bench: Bench) -> None:
        holder, alice = await bench.start("holder", DATA), await bench.start("alice")
        providers = await bench.link(alice, [holder])
        with pytest.raises(RemoteError, match=why):
            await alice.transfer.fetch(wanted, providers)
        assert holder.asked == Counter([-1])
        assert alice.blobs.manifest(MANIFEST.id) is None

    run(scenario)


def test_a_store_without_room_ends_the_fetch() -> None:
    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", DATA)
        alice = await bench.start("alice", blobs=MemoryBlobs(quota_bytes=100))
        providers = await bench.link(alice, [holder])
        with pytest.raises(StoreError, match="quota"):
            await alice.transfer.fetch(WANTED, providers)
        assert alice.transfer.downloads() == ()

    run(scenario)


def test_an_error_of_the_disk_in_the_middle_ends_the_fetch() -> None:
    class FullBlobs(MemoryBlobs):
        async def write(self, artifact: ArtifactId, index: int, data: bytes) -> None:
            if len(self.missing(artifact)) <= 4:
                raise StoreError("disk full")
            await super().write(artifact, index, data)

    async def scenario(bench: Bench) -> None:
        holder, alice = (
            await bench.start("holder", DATA),
            await bench.start("alice", blobs=FullBlobs()),
        )
        providers = await bench.link(alice, [holder])
        with pytest.raises(StoreError, match="disk full"):
            await alice.transfer.fetch(WANTED, providers)

    run(scenario)


def test_an_unlinked_provider_is_reached_first() -> None:
    async def scenario(bench: Bench) -> None:
        holder, alice = await bench.start("holder", DATA), await bench.start("alice")

        async def reach(who: PeerId) -> Link:
            return await alice.transport.connect(holder.transport.address, who)

        transfer = Transfer(
            alice.transport, alice.blobs, Random(0), allowed=lambda *_: False, reach=reach
        )
        manifest: Manifest = await transfer.fetch(WANTED, [holder.transport.peer])
        assert manifest == MANIFEST

    run(scenario)
