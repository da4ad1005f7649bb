"""What rogues answer on real sockets: providers of artifacts, of decisions and of peer records that lie."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, manifest_of
from p2pd.core.encoding import encode
from p2pd.core.hello import PeerRecord
from p2pd.core.talk import (
    GetChunk,
    GetFarthest,
    GetManifest,
    GetRecords,
    Peers,
    Records,
    Tip,
    dump_talk,
    load_talk,
)
from p2pd.node.peer_table import KIND, record_scope
from p2pd.node.wanted import Wanted
from p2pd.wire.envelope import dump, seal
from tests.core.builders import GENESIS, SETTING, VALIDATORS
from tests.hostile.bed import MB, NETWORK, Bed, on_bed, until
from tests.hostile.rogue import ROGUE, answered, linked, signer_of

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
            await rogue.say(dump_talk(Tip(SETTING.revision.id, height, GENESIS.id)))
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
