"""Rogues on real sockets: what they try, what it comes to, and that it works where the defence is taken away."""

import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random
from typing import Any

import cbor2
import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, manifest_of
from p2pd.core.encoding import encode
from p2pd.core.hello import PeerRecord
from p2pd.core.ids import ArtifactId, NetworkId, PeerId, RevisionId
from p2pd.core.messages import Beacon, Service
from p2pd.core.signed import Signed
from p2pd.core.talk import (
    GetChunk,
    GetFarthest,
    GetManifest,
    GetRecords,
    Inventory,
    Objects,
    Peers,
    Records,
    Tip,
    dump_talk,
    load_talk,
)
from p2pd.core.votes import Step, Vote
from p2pd.io.overlay import OverlaySettings, QuicTransport
from p2pd.io.overlay.connection import CloseCode, Connection
from p2pd.io.overlay.unfinished import Unfinished
from p2pd.node.conduct import FAULTS_MOST, Conduct
from p2pd.node.peer_table import KIND, record_scope
from p2pd.node.wanted import Wanted
from p2pd.wire.envelope import dump, seal
from tests.core.builders import GENESIS, SETTING, TRAINERS, VALIDATORS, beacon, running
from tests.hostile.bed import NETWORK, Bed, on_bed, resident_bytes, until
from tests.hostile.rogue import Rogue, answered, calling, hello, linked, signer_of

REVISION = SETTING.revision.id
ROGUE = signer_of("rogue").peer
MB = 2**20


def objects(*signed: Signed[Any]) -> bytes:
    return dump_talk(Objects(tuple(dump(one) for one in signed)))


def a_vote(round_: int = 0, height: int = 1, **scope: Any) -> Signed[Vote]:
    place = replace(SETTING.scope(height), **scope)
    return seal(VALIDATORS[0], "vote", place, Vote(Step.PREVOTE, round_, None, -1, ()))


def forged(number: int) -> bytes:
    return objects(replace(a_vote(number), signature=bytes(64)))


BAD_MESSAGES: dict[str, Callable[[int], bytes]] = {
    "unknown tag": lambda n: bytes([99]) + encode((n,)),
    "nothing at all": lambda n: b"",
    "a request on the control lane": lambda n: dump_talk(GetRecords(REVISION, n)),
    "noise": lambda n: b"\x01" + Random(n).randbytes(500),
    "deep nesting": lambda n: b"\x01" + b"\x81" * 10_000 + b"\x00",
    "an array of 2^40 items": lambda n: b"\x01\x9b" + (2**40).to_bytes(8),
    "a text of 2^60 bytes": lambda n: b"\x01\x81\x81\x7b" + (2**60).to_bytes(8),
    "a map": lambda n: b"\x01" + cbor2.dumps({"envelopes": [n]}),
    "an unknown kind": lambda n: b"\x01" + encode(((b"\x85\x64coup" + bytes(90),),)),
    "false signatures": forged,
    "of another term": lambda n: objects(a_vote(n, term=bytes(32))),
    "of another network": lambda n: objects(a_vote(n, network=bytes(32))),
    "votes without a seat": lambda n: objects(
        seal(signer_of("rogue"), "vote", SETTING.scope(1), a_vote(n).content)
    ),
}


async def cut_off(rogue: Rogue, make: Callable[[int], bytes]) -> str:
    for number in range(FAULTS_MOST + 1):
        if rogue.ended is None:
            await rogue.say(make(number))
    ending = await rogue.end()
    assert ending.error_code == CloseCode.LEFT
    return ending.reason_phrase


@pytest.mark.parametrize("what", BAD_MESSAGES)
def test_i09_who_sends_what_does_not_hold_is_cut_off_and_not_taken_again(what: str) -> None:
    async def scene(bed: Bed) -> None:
        before = resident_bytes()
        async with linked(bed.victim.address, NETWORK) as rogue:
            assert "do not hold" in await cut_off(rogue, BAD_MESSAGES[what])
        async with linked(bed.victim.address, NETWORK) as rogue:
            assert "for what it did before" in (await rogue.end()).reason_phrase
        assert ROGUE not in bed.victim.links()
        assert resident_bytes() - before < 32 * MB

    on_bed(scene)


class Forgiving(Conduct):
    """No defence: nothing counts."""

    def fault(self, peer: PeerId, now_s: float, *, weight: int = 1) -> bool:
        return False

    def allows(self, peer: PeerId, units: float, now_s: float) -> bool:
        return True


def test_without_accounts_the_same_rogue_stays() -> None:
    async def scene(bed: Bed) -> None:
        bed.victim.node.conduct = Forgiving([])
        async with linked(bed.victim.address, NETWORK) as rogue:
            for number in range(3 * FAULTS_MOST):
                await rogue.say(forged(number))
            await until(lambda: sum(bed.victim.node.refused.values()) == 3 * FAULTS_MOST)
            assert ROGUE in bed.victim.links()

    on_bed(scene)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ((2**31).to_bytes(4), "exceeds the limit"),
        ((MB + 1).to_bytes(4) + bytes(1000), "exceeds the limit"),
    ],
)
def test_i08_an_oversize_message_ends_the_link_before_it_is_read(data: bytes, reason: str) -> None:
    async def scene(bed: Bed) -> None:
        async with linked(bed.victim.address, NETWORK) as rogue:
            await rogue.write(data)
            ending = await rogue.end()
            assert ending.error_code == CloseCode.REFUSED
            assert reason in ending.reason_phrase

    on_bed(scene)


def test_i03_what_was_recorded_is_not_taken_again_anywhere() -> None:
    """Verbatim, by another sender, at another height, in another experiment."""

    async def scene(bed: Bed) -> None:
        vote = a_vote()
        await bed.victim.lane.publish(vote)
        await until(lambda: vote in bed.neighbour.role.seen)
        for host in (bed.victim, bed.neighbour):
            seen, heard = len(host.role.seen), host.node.heard["vote"]
            async with linked(host.address, NETWORK) as rogue:
                await rogue.say(*[objects(vote)] * 20)
                await until(lambda: host.node.heard["vote"] >= heard + 20)  # noqa: B023
                for moved in (
                    replace(vote, scope=SETTING.scope(2)),
                    replace(vote, scope=replace(vote.scope, experiment="another")),
                    replace(vote, scope=replace(vote.scope, revision=RevisionId(bytes(32)))),
                    replace(vote, kind="beacon"),
                ):
                    await rogue.say(objects(moved))
                await until(lambda: sum(host.node.refused.values()) >= 4)  # noqa: B023
            assert len(host.role.seen) == seen
        assert bed.victim.node.refused["false signature on a vote"] == 3

    on_bed(scene)


def test_i01_what_was_recorded_at_one_height_is_late_at_the_next() -> None:
    async def scene(bed: Bed) -> None:
        lane, node = bed.victim.lane, bed.victim.node
        vote = a_vote()
        lane.pool.advance(running(0))
        async with linked(bed.victim.address, NETWORK) as rogue:
            heard = node.heard["vote"]
            await rogue.say(objects(vote))
            await until(lambda: node.heard["vote"] > heard)
        assert vote.id not in lane.pool.held
        assert vote not in bed.victim.role.seen
        lane.pool.previous = GENESIS

    on_bed(scene)


PAYLOAD = Random(1).randbytes(2 * CHUNK_BYTES)
MANIFEST = manifest_of(ArtifactKind.HEAD, SETTING.revision.schema.id, PAYLOAD)


def serves(manifest: bytes | None, chunk: bytes | None) -> Callable[[bytes], bytes | None]:
    """A provider that answers with these bytes, or with nothing at all."""

    def answer(request: bytes) -> bytes | None:
        match load_talk(request):
            case GetManifest():
                return None if manifest is None else answered(manifest)
            case GetChunk():
                return None if chunk is None else answered(chunk)
            case _:
                return None

    return answer


PROVIDERS = {
    "claims what it has not": serves(None, None),
    "gives another manifest": serves(
        encode(manifest_of(ArtifactKind.HEAD, SETTING.revision.schema.id, b"x")), None
    ),
    "gives garbage for a manifest": serves(b"\x80\x04\x95garbage", None),
    "gives wrong bytes": serves(encode(MANIFEST), bytes(CHUNK_BYTES)),
    "gives too many bytes": serves(encode(MANIFEST), bytes(2 * CHUNK_BYTES)),
    "stalls at the bytes": serves(encode(MANIFEST), None),
}


@pytest.mark.parametrize("what", PROVIDERS)
def test_i08_a_fake_provider_delays_a_fetch_and_gets_nothing_in(what: str) -> None:
    async def scene(bed: Bed) -> None:
        schema = SETTING.revision.schema.id
        wanted = Wanted(MANIFEST.id, ArtifactKind.HEAD, schema, 10 * MB)
        await bed.neighbour.blobs.put(ArtifactKind.HEAD, schema, PAYLOAD)
        transfer = bed.victim.node.transfer
        transfer._settings = replace(transfer._settings, patience_first_s=2.0)
        lies = what.startswith("gives") and "too many" not in what
        async with (
            linked(bed.victim.address, NETWORK, answer=PROVIDERS[what]),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(transfer.fetch, wanted, [ROGUE])
            await until(lambda: not lies or ROGUE in transfer.faults)
            await until(lambda: bool(transfer.downloads()))
            transfer.offer(MANIFEST.id, [VALIDATORS[1].peer])
        assert await bed.victim.blobs.read(MANIFEST.id, 1) == PAYLOAD[CHUNK_BYTES:]
        assert (ROGUE in transfer.faults) == lies

    on_bed(scene)


@pytest.mark.parametrize("height", [1, 2**62])
def test_a_peer_whose_decisions_do_not_hold_is_parted_from(height: int) -> None:
    """It promises a height that nobody has."""

    def answer(request: bytes) -> bytes | None:
        is_records = isinstance(load_talk(request), GetRecords | GetFarthest)
        return answered(encode(Records((b"\x80\x04\x95",)))) if is_records else None

    async def scene(bed: Bed) -> None:
        async with linked(bed.victim.address, NETWORK, answer=answer) as rogue:
            await rogue.say(dump_talk(Tip(REVISION, height, GENESIS.id)))
            assert "decisions do not hold" in (await rogue.end()).reason_phrase
        assert bed.victim.lane.decision == GENESIS

    on_bed(scene)


def test_a_peer_whose_records_of_others_are_forged_is_shunned_in_the_end() -> None:
    record = seal(signer_of("nobody"), KIND, record_scope(NETWORK), PeerRecord("10.0.0.1:1", (), 1))
    false = dump(replace(record, signature=bytes(64)))

    def answer(request: bytes) -> bytes | None:
        return answered(encode(Peers(1_800_000_000_000, (false,))))

    async def scene(bed: Bed) -> None:
        reasons = []
        for _ in range(7):
            async with linked(bed.victim.address, NETWORK, answer=answer) as rogue:
                reasons.append((await rogue.end()).reason_phrase)
        assert all("peer records are wrong" in reason for reason in reasons[:5])
        assert "for what it did before" in reasons[6]
        assert len(bed.victim.node.discovery.known()) <= 1

    on_bed(scene)


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
            nursery.start_soon(flood, rogue, dump_talk(Inventory(REVISION, 1, ())), 100_000)
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
        assert len(node.transfer._linked) <= 1 if hasattr(node.transfer, "_linked") else True

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


def test_a_mistake_of_ours_costs_the_link_that_it_came_by_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What one peer sends must not end the service for all."""

    async def scene(bed: Bed) -> None:
        node = bed.victim.node
        received = node.received

        def mistaken(peer: PeerId, message: bytes) -> None:
            if peer == ROGUE:
                raise ZeroDivisionError("a mistake")
            received(peer, message)

        node.received = mistaken  # type: ignore[method-assign]
        async with linked(bed.victim.address, NETWORK) as rogue:
            await rogue.say(b"anything")
            await until(lambda: ROGUE not in bed.victim.links())

    on_bed(scene)
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "what came on it failed" in record.getMessage()


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
