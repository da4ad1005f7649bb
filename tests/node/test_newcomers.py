"""A node that lacks decisions gets them from its neighbours, whatever some of these say."""

from dataclasses import replace

import pytest
import trio

from p2pd.core.decision import Record
from p2pd.core.encoding import encode
from p2pd.core.talk import Decided, Records, Tip, dump_talk
from p2pd.wire.records import dump_record
from tests.core.builders import GENESIS, STRANGER, record
from tests.node.lane_bench import FIRST, HERE, SECOND, Liar, meet_liar, with_chain
from tests.node.node_bench import Bench, on_bench


def test_a_newcomer_catches_up_from_its_neighbour() -> None:
    async def main(bench: Bench) -> None:
        old = await with_chain(bench, "old", FIRST, SECOND)
        new = await bench.start("new", STRANGER, "viewer")
        await bench.link(new, old)
        await trio.sleep(5.0)
        assert new.lane.decision.id == SECOND.id
        assert [one.id for one in new.role.adopted] == [FIRST.id, SECOND.id]

    on_bench(main)


def test_a_follower_is_handed_what_a_validator_decides() -> None:
    async def main(bench: Bench) -> None:
        judge = await with_chain(bench, "judge", FIRST)
        new = await bench.start("new", STRANGER, "viewer")
        await bench.link(new, judge)
        await trio.sleep(5.0)
        asked: list[int] = []
        serve = judge.lane.chronicle.records_after

        def count(height: int, limit_bytes: int) -> tuple[bytes, ...]:
            asked.append(height)
            return serve(height, limit_bytes)

        judge.lane.chronicle.records_after = count  # type: ignore[method-assign]
        await judge.lane.adopt(record(SECOND))
        await trio.sleep(0.5)
        assert new.lane.decision.id == SECOND.id
        assert asked == []

    on_bench(main)


def brought(one: Record, height: int = 1) -> bytes:
    return dump_talk(Decided(HERE, height, one.decision.id, dump_record(one)))


@pytest.mark.parametrize(
    "said",
    [
        dump_talk(Decided(HERE, 1, FIRST.id, b"garbage")),
        brought(replace(record(FIRST), certificate=None)),
        brought(record(SECOND)),
    ],
    ids=["no record", "no certificate", "not the next one"],
)
def test_i03_who_hands_over_what_does_not_hold_is_parted_from_and_another_is_heard(
    said: bytes,
) -> None:
    async def main(bench: Bench) -> None:
        new = await bench.start("new", STRANGER, "viewer")
        transport = await meet_liar(bench, Liar(b""), new, height=0)
        transport.send(new.node.transport.peer, said)
        await trio.sleep(0.5)
        assert new.lane.decision.id == GENESIS.id
        assert new.node.transport.links() == ()
        old = await with_chain(bench, "old", FIRST)
        await bench.link(old, new)
        await trio.sleep(5.0)
        assert new.lane.decision.id == FIRST.id

    on_bench(main)


def test_i09_what_is_handed_over_out_of_turn_is_not_opened() -> None:
    async def main(bench: Bench) -> None:
        new = await with_chain(bench, "new", FIRST)
        transport = await meet_liar(bench, Liar(b""), new, height=0)
        for height in (1, 5):
            said = dump_talk(Decided(HERE, height, FIRST.id, b"garbage"))
            transport.send(new.node.transport.peer, said)
        await trio.sleep(0.5)
        assert new.lane.decision.id == FIRST.id
        assert len(new.node.transport.links()) == 1

    on_bench(main)


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage",
        encode(Records((b"garbage",))),
        encode(Records((dump_record(replace(record(FIRST), certificate=None)),))),
        encode(Records((dump_record(record(SECOND)),))),
        encode(Records(())),
    ],
    ids=["no records", "no record", "no certificate", "gap", "nothing"],
)
def test_i03_catching_up_goes_on_with_another_peer_where_one_serves_what_does_not_hold(
    answer: bytes,
) -> None:
    async def main(bench: Bench) -> None:
        new = await bench.start("new", STRANGER, "viewer")
        liar = Liar(answer)
        await meet_liar(bench, liar, new)
        old = await with_chain(bench, "old", FIRST, SECOND)
        await bench.link(old, new)
        await trio.sleep(10.0)
        assert liar.asked > 0
        assert new.lane.decision.id == SECOND.id

    on_bench(main)


def test_i09_a_peer_that_promises_and_never_answers_holds_up_nobody() -> None:
    async def main(bench: Bench) -> None:
        new = await bench.start("new", STRANGER, "viewer")
        transport = await meet_liar(bench, Liar(b""), new)
        old = await with_chain(bench, "old", FIRST)
        await bench.link(old, new)
        await trio.sleep(3.0)
        assert new.lane.decision.id == FIRST.id
        await trio.sleep(20.0)
        # It is known by now, and asked after the others.
        transport.send(new.node.transport.peer, dump_talk(Tip(HERE, 2**40, GENESIS.id)))
        await old.lane.adopt(record(SECOND))
        await trio.sleep(3.0)
        assert new.lane.decision.id == SECOND.id

    on_bench(main)
