"""A node's copy of the governance log: durable, passed on, asked for, and led by what a chain has taken. Seconds."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from p2pd.core.decision import Decision
from p2pd.core.encoding import encode
from p2pd.core.genesis import Endorsement
from p2pd.core.governance import SignedGovernance
from p2pd.core.talk import GetGovernance, GovernanceTip, Records, dump_talk, load_talk
from p2pd.core.validator.events import RecordHeld
from p2pd.core.voting.exchange import Inventory
from p2pd.errors import RemoteError, StoreError
from p2pd.node.governance import AGAIN_S, NotNextError
from p2pd.ports import Table, Write
from tests.core.builders import (
    GENESIS,
    STRANGER,
    VALIDATORS,
    choices,
    extension,
    follow,
    record,
)
from tests.node.lane_bench import Liar, meet_liar
from tests.node.node_bench import Bench, Running, on_bench

FIRST = extension()
SECOND = extension(FIRST.place, end_heads=12)
RIVAL = extension(end_heads=20)


def numbers(one: Running) -> list[int]:
    return [each.record.number for each in one.node.governance.after(0)]


def told(one: Running) -> list[SignedGovernance]:
    return [event.signed for event in one.role.events if isinstance(event, RecordHeld)]


async def three(bench: Bench) -> Sequence[Running]:
    """In a row: the two outer ones have no link."""
    nodes = [await bench.start(f"v{n}", VALIDATORS[n]) for n in range(3)]
    for node in nodes:
        node.role.shows = Inventory((), (), ())
    await bench.link(nodes[1], nodes[0], nodes[2])
    return nodes


def test_a_record_that_one_node_is_given_comes_to_all_and_to_their_roles() -> None:
    async def main(bench: Bench) -> None:
        nodes = await three(bench)
        await nodes[0].node.governance.add(FIRST)
        await nodes[0].node.governance.add(FIRST)
        await nodes[0].node.governance.add(SECOND)
        await trio.sleep(2.0)
        for node in nodes:
            assert numbers(node) == [1, 2]
            assert told(node) == [FIRST, SECOND]

    on_bench(main)


def test_it_is_held_over_a_restart_and_told_to_the_role_again() -> None:
    async def main(bench: Bench) -> None:
        one = await bench.start("v0", VALIDATORS[0])
        await one.node.governance.add(FIRST)
        one.life.cancel()
        again = await bench.start("again", VALIDATORS[0], ledger=one.ledger)
        assert numbers(again) == [1]

    on_bench(main)


def test_who_comes_late_or_missed_a_message_gets_what_it_lacks() -> None:
    async def main(bench: Bench) -> None:
        one, other = [await bench.start(f"v{n}", VALIDATORS[n]) for n in range(2)]
        await one.node.governance.add(FIRST)
        await bench.link(one, other)
        await trio.sleep(1.0)
        assert numbers(other) == [1]
        one.node.governance._neighbours.tell_all = lambda _: None  # type: ignore[method-assign, assignment]
        await one.node.governance.add(SECOND)
        await trio.sleep(2 * AGAIN_S)
        assert numbers(other) == [1, 2]

    on_bench(main)


def test_what_does_not_follow_or_is_not_the_authoritys_is_refused() -> None:
    async def main(bench: Bench) -> None:
        one = await bench.start("v0", VALIDATORS[0])
        log = one.node.governance
        with pytest.raises(NotNextError, match="record 2 does not follow number 0"):
            await log.add(SECOND)
        with pytest.raises(RemoteError, match="0 of 1 endorsements"):
            await log.add(extension(signers=()))
        with pytest.raises(RemoteError, match="must be the authority's"):
            await log.add(extension(signers=(STRANGER,)))
        await log.add(FIRST)
        with pytest.raises(
            NotNextError, match=r"record 1 is .* here, not .*: the authority signed two"
        ):
            await log.add(RIVAL)
        assert numbers(one) == [1]
        assert "signed two governance records 1" in one.node.health.troubles()[0]

    on_bench(main)


class Forger(Liar):
    """Of governance alone: all else it does not know."""

    async def answer(self, peer: Any, request: bytes) -> bytes:
        if not isinstance(load_talk(request), GetGovernance):
            raise RemoteError("not known here")
        return await super().answer(peer, request)


def test_a_peer_with_forged_records_is_parted_from_after_a_few() -> None:
    false = SignedGovernance(FIRST.record, (Endorsement(FIRST.endorsements[0].key, bytes(64)),))

    async def main(bench: Bench) -> None:
        one = await bench.start("v0", VALIDATORS[0])
        liar = Forger(encode(Records((encode(false),))))
        transport = await meet_liar(bench, liar, one, height=0)
        for _ in range(10):
            transport.send(one.node.transport.peer, dump_talk(GovernanceTip(1, FIRST.record.id)))
            await trio.sleep(1.0)
        assert numbers(one) == []
        assert liar.asked >= 5
        assert not one.node.transport.links()

    on_bench(main)


def chain_of(*records: SignedGovernance) -> list[Decision]:
    chain = [GENESIS]
    for each in records:
        chain.append(follow(chain[-1], choices(chain[-1], governance=(each,))))
    return chain[1:]


def test_the_record_that_a_decision_takes_replaces_another_and_all_that_followed_it() -> None:
    async def main(bench: Bench) -> None:
        one = await bench.start("v0", VALIDATORS[0])
        await one.node.governance.add(FIRST)
        await one.node.governance.add(SECOND)
        (taken,) = chain_of(RIVAL)
        await one.lane.adopt(record(taken))
        assert list(one.node.governance.after(0)) == [RIVAL]
        one.life.cancel()
        again = await bench.start("again", VALIDATORS[0], ledger=one.ledger)
        assert list(again.node.governance.after(0)) == [RIVAL]
        assert again.lane.decision.id == taken.id

    on_bench(main)


def test_who_leaps_over_the_decision_that_took_a_record_asks_for_it() -> None:
    async def main(bench: Bench) -> None:
        one, other = [await bench.start(f"v{n}", VALIDATORS[n]) for n in range(2)]
        first, second = chain_of(RIVAL, extension(RIVAL.place))
        for decision in (first, second):
            await other.lane.adopt(record(decision))
        await one.node.governance.add(FIRST)
        after = follow(second, choices(second))
        await one.lane.leap(record(after))
        assert one.lane.decision.state.governed.log.number == 2
        await bench.link(one, other)
        await trio.sleep(2 * AGAIN_S)
        assert [each.record.id for each in one.node.governance.after(0)] == [
            each.record.id for each in other.node.governance.after(0)
        ]

    on_bench(main)


def test_a_damaged_log_is_said_and_not_begun_anew() -> None:
    async def main(bench: Bench) -> None:
        one = await bench.start("v0", VALIDATORS[0])
        await one.node.governance.add(FIRST)
        for key, data in ((bytes(7) + b"\1", b"nonsense"), (bytes(7) + b"\1", encode(SECOND))):
            await one.ledger.commit([Write(Table.GOVERNANCE, key, data)])
            one.node.governance._records.clear()
            with pytest.raises(StoreError, match="governance record 1 is damaged"):
                one.node.governance.open()

    on_bench(main)


def test_no_number_that_is_none_is_answered() -> None:
    async def main(bench: Bench) -> None:
        one = await bench.start("v0", VALIDATORS[0])
        for number in (-1, 2**60):
            with pytest.raises(RemoteError, match="no number of a governance record"):
                one.node.governance.serve(GetGovernance(number))

    on_bench(main)
