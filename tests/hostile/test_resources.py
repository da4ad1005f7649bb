"""What rogues try to use up on real sockets: memory, places, time and lines of the log."""

import gc
from contextlib import AsyncExitStack
from random import Random

import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind
from p2pd.core.ids import ArtifactId, NetworkId, RevisionId
from p2pd.core.messages import Beacon, Service
from p2pd.core.talk import GetChunk, Inventory, Tip, dump_talk
from p2pd.io.overlay import OverlaySettings, QuicTransport
from p2pd.io.overlay.connection import Connection
from p2pd.io.overlay.unfinished import Unfinished
from p2pd.wire.envelope import seal
from tests.core.builders import SETTING, TRAINERS, VALIDATORS, beacon
from tests.hostile.bed import MB, NETWORK, Bed, on_bed, resident_bytes, until
from tests.hostile.rogue import Rogue, calling, hello, linked, objects, signer_of


async def flood(rogue: Rogue, message: bytes, count: int) -> None:
    for _ in range(count // 100):
        if rogue.ended is None:
            await rogue.say(*[message] * 100)
        await trio.lowlevel.checkpoint()


def test_i09_a_flood_that_keeps_to_the_form_is_read_up_to_an_allowance_and_then_cut_off() -> None:
    """Each message asks for all that the node holds."""

    async def scene(bed: Bed) -> None:
        held = [beacon(1, one) for one in TRAINERS]
        for one in held:
            await bed.victim.lane.publish(one)
        async with linked(bed.victim.address, NETWORK) as rogue, trio.open_nursery() as nursery:
            nursery.start_soon(
                flood, rogue, dump_talk(Inventory(SETTING.revision.id, 1, ())), 100_000
            )
            assert "more than is read" in (await rogue.end()).reason_phrase
            nursery.cancel_scope.cancel()
        assert bed.victim.node.refused["more than is read of one peer"] > 1000

    on_bed(scene)


def test_i09_a_million_ids_take_no_more_room_than_a_few() -> None:
    """Heights, artifacts, revisions and signers that nobody knows."""

    async def scene(bed: Bed) -> None:
        lane, node = bed.victim.lane, bed.victim.node
        dice = Random(0)
        async with linked(bed.victim.address, NETWORK) as rogue:
            for number in range(700):
                revision = RevisionId(dice.randbytes(32))
                ids = tuple(ArtifactId(dice.randbytes(32)) for _ in range(20))
                stranger = signer_of(str(number))
                await rogue.say(
                    dump_talk(Tip(revision, number, dice.randbytes(32))),  # type: ignore[arg-type]
                    dump_talk(Inventory(revision, number, ids)),  # type: ignore[arg-type]
                    objects(
                        seal(
                            stranger, "beacon", SETTING.scope(1 + number % 2), Beacon(Service.TRAIN)
                        )
                    ),
                )
            await until(lambda: node.heard["beacon"] >= 700 or rogue.ended is not None)
            await bed.works()
        most = 600
        assert len(lane.pool.held) < most
        assert len(lane.pool.ahead) <= 512
        assert len(lane._catch_up._ahead) <= 1
        assert len(node.discovery._targets) < 10
        assert len(node.conduct._accounts) < 10

    on_bed(scene)


def test_i09_callers_with_ever_new_keys_leave_nothing_behind() -> None:
    async def scene(bed: Bed) -> None:
        node = bed.victim.node
        for number in range(40):
            async with linked(bed.victim.address, NETWORK, f"rogue {number}") as rogue:
                rogue.quic.close()
                await rogue.flush()
        await until(lambda: bed.victim.links() == {VALIDATORS[1].peer})
        assert len(node.discovery._targets) <= 1

    on_bed(scene)


@pytest.mark.parametrize(("size", "why"), [(1000, ""), (20_000, "exceeds")])
def test_i09_requests_that_never_end_are_given_up(size: int, why: str) -> None:
    async def scene(bed: Bed) -> None:
        async with linked(bed.victim.address, NETWORK) as rogue:
            asked = [await rogue.ask(bytes(size), last=False) for _ in range(16)]
            await rogue.until(lambda: rogue.dropped >= set(asked))
            await rogue.until(lambda: len(rogue.answers) == (16 if why else 0))
            assert all(why.encode() in rogue.answers.get(one, b"") for one in asked)

    on_bed(scene, OverlaySettings(stall_s=30.0 if why else 0.2))


def test_i09_an_answer_that_nobody_takes_is_given_up() -> None:
    """It answers from its chunks, which are large, and the asker acknowledges nothing."""

    async def scene(bed: Bed) -> None:
        schema = SETTING.revision.schema.id
        artifact = await bed.victim.blobs.put(ArtifactKind.HEAD, schema, bytes(16 * CHUNK_BYTES))
        before = resident_bytes()
        async with linked(bed.victim.address, NETWORK) as rogue:
            rogue.reads = False
            for _ in range(4):
                for index in range(16):
                    await rogue.ask(dump_talk(GetChunk(artifact, index)))
            for _ in range(5):
                await bed.works()
            assert resident_bytes() - before < 48 * MB

    on_bed(scene, OverlaySettings(stall_s=0.5))


@pytest.mark.parametrize("patience_s", [0.3])
def test_a_caller_that_trickles_its_hello_is_not_waited_for(patience_s: float) -> None:
    async def scene(bed: Bed) -> None:
        async with calling(bed.victim.address) as rogue:
            for byte in hello(NETWORK, "validator"):
                if rogue.ended is not None:
                    break
                await rogue.write(bytes([byte]))
                with trio.move_on_after(patience_s / 10):
                    await rogue.end()
            assert "took too long" in (await rogue.end()).reason_phrase

    on_bed(scene, OverlaySettings(handshake_s=patience_s))


def connections() -> int:
    """That live in this process; what is over may wait for the collector."""
    gc.collect()
    return sum(type(one) is Connection for one in gc.get_objects())


def test_i09_connections_that_are_over_are_let_go() -> None:
    async def scene(bed: Bed) -> None:
        before = connections()
        for number in range(12):
            async with calling(bed.victim.address, f"rogue {number}"):
                pass
        assert connections() > before
        while connections() > before:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.2)

    on_bed(scene, OverlaySettings(handshake_s=0.3))


def test_i09_one_machine_cannot_take_the_places_of_all_callers() -> None:
    async def scene(bed: Bed) -> None:
        async with (
            calling(bed.victim.address, "rogue 1"),
            calling(bed.victim.address, "rogue 2"),
            trio.open_nursery() as nursery,
        ):
            host, _, port = bed.victim.address.rpartition(":")
            third = Rogue(signer_of("rogue 3"), (host, int(port)))
            nursery.start_soon(third.run)
            async with linked(bed.victim.address, NETWORK, "other", source="127.0.0.2") as other:
                await until(lambda: other.signer.peer in bed.victim.links())
                assert third.quic.tls._peer_certificate is None
            nursery.cancel_scope.cancel()

    on_bed(scene, OverlaySettings(half_open_per_host=2))


def test_i09_callers_that_are_refused_again_and_again_leave_no_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each could be one of a hundred a second."""
    caplog.set_level("INFO")

    async def scene(bed: Bed) -> None:
        caplog.clear()
        for number in range(10):
            async with linked(bed.victim.address, NetworkId(bytes(32)), f"rogue {number}") as rogue:
                assert "check the genesis" in (await rogue.end()).reason_phrase
        assert [record for record in caplog.records if record.name.startswith("p2pd")] == []

    on_bed(scene)


def test_i09_messages_that_trickle_in_from_many_hold_little_memory_together() -> None:
    async def scene(bed: Bed) -> None:
        transport = bed.victim.node.transport
        assert isinstance(transport, QuicTransport)
        transport._unfinished = Unfinished(3 * MB // 2)
        async with AsyncExitStack() as stack:
            rogues = []
            for number in range(3):
                one = await stack.enter_async_context(
                    linked(bed.victim.address, NETWORK, f"rogue {number}")
                )
                await one.write(MB.to_bytes(4) + bytes(MB // 2 + number))
                rogues.append(one)
                if number < 2:
                    most = (number + 1) * MB // 2
                    await until(lambda: transport._unfinished.total_bytes >= most)  # noqa: B023
            assert "long in coming" in (await rogues[0].end()).reason_phrase
            await bed.works()
            assert rogues[1].ended is rogues[2].ended is None

    on_bed(scene)
