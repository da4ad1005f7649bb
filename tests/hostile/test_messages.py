"""What rogues say on real sockets: it is refused, and it works where the defence is taken away."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import cbor2
import pytest

from p2pd.core.encoding import encode
from p2pd.core.ids import PeerId, RevisionId
from p2pd.core.signed import Signed
from p2pd.core.talk import GetRecords, dump_talk
from p2pd.core.votes import Step, Vote
from p2pd.io.overlay.connection import CloseCode
from p2pd.node.conduct import FAULTS_MOST, Conduct
from p2pd.wire.envelope import seal
from tests.core.builders import GENESIS, SETTING, VALIDATORS, running
from tests.hostile.bed import MB, NETWORK, Bed, on_bed, resident_bytes, until
from tests.hostile.rogue import ROGUE, Rogue, linked, objects, signer_of


def a_vote(round_: int = 0, height: int = 1, **scope: Any) -> Signed[Vote]:
    place = replace(SETTING.scope(height), **scope)
    return seal(VALIDATORS[0], "vote", place, Vote(Step.PREVOTE, round_, None, -1, ()))


def forged(number: int) -> bytes:
    return objects(replace(a_vote(number), signature=bytes(64)))


BAD_MESSAGES: dict[str, Callable[[int], bytes]] = {
    "unknown tag": lambda n: bytes([99]) + encode((n,)),
    "nothing at all": lambda n: b"",
    "a request on the control lane": lambda n: dump_talk(GetRecords(SETTING.revision.id, n)),
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
