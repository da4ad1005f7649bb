"""A node among others: what it takes, what it passes on, and when it parts."""

from dataclasses import replace
from typing import Any

import pytest
import trio

from p2pd.core.encoding import decode
from p2pd.core.signed import Signed
from p2pd.core.talk import (
    GetChoices,
    GetRecords,
    GetRevision,
    Inventory,
    Objects,
    Records,
    Tip,
    dump_talk,
)
from p2pd.core.votes import Step, Vote
from p2pd.errors import RemoteError
from p2pd.node.conduct import FAULTS_MOST
from p2pd.sim.links import LinkFaults
from p2pd.wire.envelope import dump, seal
from p2pd.wire.records import load_revision
from tests.cli.chains import key
from tests.core.builders import SETTING, STRANGER, TRAINERS, VALIDATORS, beacon
from tests.node.node_bench import REVISION, Bench, Running, on_bench

LOST = LinkFaults(loss=1.0)


def a_vote(who: int = 0, round_: int = 0) -> Signed[Vote]:
    return seal(VALIDATORS[who], "vote", SETTING.scope(1), Vote(Step.PREVOTE, round_, None, -1, ()))


def objects(*signed: Signed[Any]) -> bytes:
    return dump_talk(Objects(tuple(dump(one) for one in signed)))


async def three_in_a_row(bench: Bench) -> tuple[Running, Running, Running]:
    first, middle, last = [await bench.start(f"n{n}", VALIDATORS[n]) for n in range(3)]
    await bench.link(first, middle)
    await bench.link(middle, last)
    await trio.sleep(0.5)
    return first, middle, last


def test_a_flood_reaches_all_and_stops() -> None:
    async def main(bench: Bench) -> None:
        nodes = [await bench.start(f"n{n}", VALIDATORS[n]) for n in range(4)]
        for n, one in enumerate(nodes):
            await bench.link(one, *nodes[n + 1 :])
        vote = a_vote()
        await nodes[0].lane.publish(vote)
        await trio.sleep(5.0)
        assert [one.role.seen for one in nodes] == [[vote]] * 4
        assert all(one.node.heard["vote"] <= 3 for one in nodes)

    on_bench(main)


@pytest.mark.parametrize(
    "bad",
    [
        replace(a_vote(), signature=bytes(64)),
        seal(STRANGER, "vote", SETTING.scope(1), a_vote().content),
        seal(VALIDATORS[0], "vote", replace(SETTING.scope(1), term=bytes(32)), a_vote().content),  # type: ignore[arg-type]
    ],
    ids=["signature", "no validator", "another term"],
)
def test_i03_what_does_not_hold_is_neither_kept_nor_passed_on(bad: Signed[Any]) -> None:
    async def main(bench: Bench) -> None:
        first, middle, last = await three_in_a_row(bench)
        first.node.transport.send(middle.node.transport.peer, objects(bad))
        await trio.sleep(5.0)
        assert middle.role.seen == last.role.seen == []
        assert sum(middle.node.refused.values()) == 1
        assert last.node.heard["vote"] == 0

    on_bench(main)


def test_i03_a_refused_object_hides_nothing_behind_it() -> None:
    async def main(bench: Bench) -> None:
        first, middle, last = await three_in_a_row(bench)
        good = a_vote()
        batch = objects(replace(good, signature=bytes(64)), good)
        first.node.transport.send(middle.node.transport.peer, batch)
        await trio.sleep(2.0)
        assert middle.role.seen == last.role.seen == [good]

    on_bench(main)


def test_i03_a_replay_changes_nothing() -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        vote = a_vote()
        for _ in range(5):
            first.node.transport.send(middle.node.transport.peer, objects(vote))
        await trio.sleep(2.0)
        assert middle.role.seen == [vote]
        assert not middle.node.refused

    on_bench(main)


def test_what_was_lost_is_made_up_for() -> None:
    async def main(bench: Bench) -> None:
        first, middle, last = await three_in_a_row(bench)
        bench.network.set_faults(LOST)
        vote, mark = a_vote(), beacon(1, TRAINERS[0])
        await first.lane.publish(vote)
        await first.lane.publish(mark)
        await trio.sleep(3.0)
        assert last.role.seen == []
        bench.network.set_faults(LinkFaults())
        await trio.sleep(12.0)
        for one in (middle, last):
            assert {signed.id for signed in one.role.seen} == {vote.id, mark.id}

    on_bench(main)


def test_i09_many_objects_that_do_not_hold_close_the_link() -> None:
    async def main(bench: Bench) -> None:
        first, middle, last = await three_in_a_row(bench)
        peer = middle.node.transport.peer
        mine = first.node.transport.peer
        for n in range(FAULTS_MOST + 1):  # one is forgiven meanwhile
            assert mine in {link.peer for link in middle.node.transport.links()}
            bad = replace(a_vote(round_=n), signature=bytes(64))
            first.node.transport.send(peer, objects(bad))
            await trio.sleep(0.1)
        left = {link.peer for link in middle.node.transport.links()}
        assert left == {last.node.transport.peer}

    on_bench(main)


def test_i09_too_much_of_one_author_is_no_fault_of_who_passes_it_on() -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        peer = middle.node.transport.peer
        most = 2 * SETTING.revision.schedule.max_roster + 64
        crowd = [beacon(1, key(f"crowd {n}")) for n in range(most + FAULTS_MOST + 5)]
        for start in range(0, len(crowd), 20):
            first.node.transport.send(peer, objects(*crowd[start : start + 20]))
            await trio.sleep(0.2)
        assert len(middle.role.seen) == most
        assert not middle.node.refused
        assert middle.node.transport.peer in {link.peer for link in first.node.transport.links()}

    on_bench(main)


def test_garbage_and_requests_as_messages_are_refused() -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        peer = middle.node.transport.peer
        for message in (b"", b"\xff", b"\x01\x00", dump_talk(GetRevision(REVISION.revision.id))):
            first.node.transport.send(peer, message)
        await trio.sleep(1.0)
        assert sum(middle.node.refused.values()) == 4

    on_bench(main)


def test_a_revision_that_is_not_served_here_is_passed_over() -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        peer = middle.node.transport.peer
        other: Any = bytes(32)
        for message in (Tip(other, 9, other), Inventory(other, 9, ())):
            first.node.transport.send(peer, dump_talk(message))
        scope = replace(SETTING.scope(1), revision=other)
        first.node.transport.send(
            peer, objects(seal(VALIDATORS[0], "vote", scope, a_vote().content))
        )
        await trio.sleep(1.0)
        assert not middle.node.refused
        with pytest.raises(RemoteError, match="not served here"):
            await ask(first, middle, GetRevision(other))

    on_bench(main)


async def ask(one: Running, other: Running, request: Any) -> bytes:
    return await one.node.transport.request(
        other.node.transport.peer, dump_talk(request), limit_bytes=2**24
    )


def test_it_serves_its_revision_and_its_decisions() -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        revision = REVISION.revision.id
        data = await ask(first, middle, GetRevision(revision))
        assert load_revision(data, SETTING.genesis) == REVISION
        assert decode(Records, await ask(first, middle, GetRecords(revision, 0))) == Records(())

    on_bench(main)


@pytest.mark.parametrize("height", [-1, 2**63, 2**64 - 1, -(2**63)])
def test_i08_no_height_is_too_odd_to_be_asked_for(height: int) -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        with pytest.raises(RemoteError, match="no height"):
            await ask(first, middle, GetRecords(REVISION.revision.id, height))

    on_bench(main)


@pytest.mark.parametrize(
    "request_",
    [Tip(REVISION.revision.id, 1, bytes(32)), GetChoices(REVISION.revision.id, bytes(32))],  # type: ignore[arg-type]
)
def test_what_it_cannot_answer_it_refuses(request_: Any) -> None:
    async def main(bench: Bench) -> None:
        first, middle, _ = await three_in_a_row(bench)
        with pytest.raises(RemoteError):
            await ask(first, middle, request_)

    on_bench(main)


def test_trainers_and_viewers_are_not_told_of_votes() -> None:
    async def main(bench: Bench) -> None:
        judge = await bench.start("judge", VALIDATORS[0])
        trainer = await bench.start("trainer", TRAINERS[0], "trainer")
        viewer = await bench.start("viewer", STRANGER, "viewer")
        seed = await bench.start("seed", TRAINERS[1], "bootstrap")
        await bench.link(judge, trainer, viewer, seed)
        await trio.sleep(0.5)
        await judge.lane.publish(a_vote())
        await trainer.lane.publish(beacon(1, TRAINERS[0]))
        await trio.sleep(6.0)
        assert {signed.kind for signed in judge.role.seen} == {"vote", "beacon"}
        assert {signed.kind for signed in seed.role.seen} == {"vote", "beacon"}
        assert {signed.kind for signed in trainer.role.seen} == {"beacon"}
        assert viewer.role.seen == []

    on_bench(main)
