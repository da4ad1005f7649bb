"""One revision on a node: its chain, its open height, and who may have what."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import Decision, Record, artifacts_of
from p2pd.core.encoding import encode
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.messages import Report
from p2pd.core.talk import Decided, Records, Tip, dump_talk
from p2pd.core.validator.body import dump_body
from p2pd.core.voting.exchange import Inventory
from p2pd.core.work import OuterRule
from p2pd.errors import RemoteError
from p2pd.node.catch_up import LEAP_HEIGHTS, OWN_S
from p2pd.node.heads import KEPT_HEADS
from p2pd.ports import Link, Table
from p2pd.wire.envelope import dump, seal
from p2pd.wire.records import dump_record
from tests.core.builders import (
    GENESIS,
    REDUCERS,
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    prevote,
    record,
    running,
    two_faces,
    update,
)
from tests.node.node_bench import Bench, Running, on_bench

FIRST = running(trainers=2, reducers=1)
MINE = update(FIRST, TRAINERS[0])
SECOND = follow(FIRST, choices(FIRST, [MINE], all_present(FIRST, 2, 1)))
HERE = SETTING.revision.id


@dataclass
class Liar:
    """Port LinkHandler of a peer that says it is far ahead, and answers every request alike."""

    data: bytes
    asked: int = 0

    def connected(self, link: Link) -> None: ...

    def disconnected(self, link: Link, why: str) -> None: ...

    def received(self, peer: Any, message: bytes) -> None: ...

    async def answer(self, peer: Any, request: bytes) -> bytes:
        self.asked += 1
        if not self.data:
            await trio.sleep_forever()
        return self.data


async def with_chain(bench: Bench, name: str, *decisions: Decision, who: int = 0) -> Running:
    one = await bench.start(name, VALIDATORS[who])
    for decision in decisions:
        await one.lane.adopt(record(decision))
    return one


async def meet_liar(bench: Bench, liar: Liar, other: Running, height: int = 2**40) -> Any:
    hello = Hello(PROTOCOL_VERSION, SETTING.genesis.network, ("validator",), "", "test")
    transport = bench.network.join("liar", TRAINERS[5].peer, hello)
    bench.nursery.start_soon(transport.run, liar)
    await trio.sleep(0.1)
    await transport.connect(other.node.transport.address, None)
    transport.send(other.node.transport.peer, dump_talk(Tip(HERE, height, GENESIS.id)))
    await trio.sleep(0.1)
    return transport


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


@cache
def long_chain() -> tuple[Decision, ...]:
    """Idle heights by four validators, of whom one is suspended at height 5, and then by three."""
    decisions = [GENESIS]
    while len(decisions) <= LEAP_HEIGHTS + 10:
        previous = decisions[-1]
        evidence = (two_faces(5, VALIDATORS[3]),) if previous.height == 4 else ()
        decisions.append(follow(previous, choices(previous, evidence=evidence)))
    return tuple(decisions[1:])


async def leaping(bench: Bench, *decisions: Decision) -> tuple[Running, Running]:
    old = await with_chain(bench, "old", *decisions)
    new = await bench.start("new", STRANGER, "viewer")
    await bench.link(new, old)
    await trio.sleep(5.0)
    return old, new


def test_i02_who_is_far_behind_learns_where_the_set_changed_and_the_newest_decision() -> None:
    chain = long_chain()

    async def main(bench: Bench) -> None:
        old, new = await leaping(bench, *chain)
        assert [one.height for one in new.role.adopted] == [5, chain[-1].height]
        assert new.lane.decision.id == chain[-1].id
        # From there on, one after the other, and for others as well.
        following = follow(chain[-1], choices(chain[-1]))
        await old.lane.adopt(record(following))
        third = await bench.start("third", TRAINERS[4], "viewer")
        await bench.link(third, new)
        await trio.sleep(5.0)
        assert new.lane.decision.id == third.lane.decision.id == following.id
        assert [one.height for one in third.role.adopted] == [5, following.height]

    on_bench(main)


def test_who_is_a_little_behind_takes_each_decision() -> None:
    chain = long_chain()[:LEAP_HEIGHTS]

    async def main(bench: Bench) -> None:
        _, new = await leaping(bench, *chain)
        assert [one.height for one in new.role.adopted] == [one.height for one in chain]

    on_bench(main)


def test_a_node_that_leapt_goes_on_from_there_after_a_restart() -> None:
    chain = long_chain()

    async def main(bench: Bench) -> None:
        _, new = await leaping(bench, *chain)
        new.life.cancel()
        await trio.sleep(0.1)
        again = await bench.start("new", STRANGER, "viewer", ledger=new.ledger)
        assert again.lane.decision.id == chain[-1].id
        assert again.lane.chronicle.records_after(0, 2**20) == ()
        assert again.lane.chronicle.records_after(4, 2**20) == (dump_record(record(chain[4])),)

    on_bench(main)


def test_i03_a_leap_to_what_the_known_set_did_not_certify_is_not_made() -> None:
    newest = long_chain()[-1]
    lie = encode(Records((dump_record(record(newest)),)))

    async def main(bench: Bench) -> None:
        new = await bench.start("new", STRANGER, "viewer")
        liar = Liar(lie)  # the set of height 1 never signed that: it changed at height 5
        await meet_liar(bench, liar, new)
        await trio.sleep(5.0)
        assert liar.asked > 0
        assert new.lane.decision.id == GENESIS.id
        assert new.node.transport.links() == ()

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


def test_i04_a_decision_with_another_head_is_not_adopted() -> None:
    forged = replace(FIRST, header=replace(FIRST.header, head=MINE.content.artifact))

    async def main(bench: Bench) -> None:
        one = await bench.start("one", VALIDATORS[0])
        with pytest.raises(RemoteError, match="height 1"):
            await one.lane.adopt(record(forged))
        assert one.lane.decision.id == GENESIS.id

    on_bench(main)


def test_an_open_update_is_for_validators_and_drawn_reducers_until_the_decision() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        await one.lane.publish(MINE)
        artifact = MINE.content.artifact
        assert one.lane.may_have(VALIDATORS[1].peer, artifact)
        assert one.lane.may_have(REDUCERS[0].peer, artifact)
        for stranger in (TRAINERS[1], REDUCERS[1], STRANGER):
            assert not one.lane.may_have(stranger.peer, artifact)
        await one.lane.adopt(record(SECOND))
        assert one.lane.may_have(TRAINERS[1].peer, artifact)

    on_bench(main)


def test_i09_an_update_that_names_a_head_does_not_hide_it() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        head = await one.blobs.put(ArtifactKind.HEAD, SETTING.revision.schema.id, b"the base")
        await one.lane.publish(update(FIRST, TRAINERS[0], artifact=head))
        assert one.lane.may_have(TRAINERS[1].peer, head)

    on_bench(main)


def test_i10_what_a_trainer_published_is_published_again_after_a_restart() -> None:
    async def main(bench: Bench) -> None:
        judge = await with_chain(bench, "judge", FIRST)
        trainer = await bench.start("trainer", TRAINERS[0], "trainer")
        await trainer.lane.adopt(record(FIRST))
        await trainer.lane.publish(MINE)
        trainer.life.cancel()
        await trio.sleep(1.0)
        again = await bench.start(
            "trainer", TRAINERS[0], "trainer", ledger=trainer.ledger, blobs=trainer.blobs
        )
        assert [one.id for one in again.lane.own_objects()] == [MINE.id]
        assert [one.id for one in again.role.seen] == [MINE.id]
        await bench.link(again, judge)
        await trio.sleep(2.0)
        assert [one.id for one in judge.role.seen] == [MINE.id]

    on_bench(main)


def test_i10_a_restarted_node_stands_where_it_stood() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        await one.lane.remember_votes(2, b"votes")
        one.life.cancel()
        await trio.sleep(0.1)
        again = await bench.start("one", VALIDATORS[0], ledger=one.ledger, blobs=one.blobs)
        assert again.lane.decision.id == FIRST.id
        assert again.lane.stored_votes() == b"votes"
        await again.lane.adopt(record(SECOND))
        assert again.lane.stored_votes() is None

    on_bench(main)


def test_a_report_is_stored_once() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        other = await with_chain(bench, "other", FIRST, who=1)
        await bench.link(one, other)
        await trio.sleep(0.5)
        report = seal(
            VALIDATORS[0], "report", SETTING.scope(1), Report(FIRST.head, 900_000, 100_000, 10)
        )
        for _ in range(3):
            await one.lane.publish(report)
            await trio.sleep(1.0)
        assert one.node.heard["report"] == 0
        assert other.node.heard["report"] == 1
        for node in (one, other):
            rows = node.ledger.scan(Table.REPORTS, b"")
            assert [data for _, data in rows] == [dump(report)]
            assert [each.id for each in node.lane.chronicle.reports(1)] == [report.id]

    on_bench(main)


def test_choices_that_were_not_voted_on_are_asked_of_the_next_holder() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        liars = [await with_chain(bench, f"n{n}", FIRST, who=n) for n in (1, 2)]
        await bench.link(one, *liars)
        await trio.sleep(0.5)
        other = follow(FIRST, choices(FIRST))
        liars[0].role.choices[SECOND.id] = dump_body(other)
        liars[1].role.choices[SECOND.id] = dump_body(SECOND)
        holders = [each.node.transport.peer for each in liars]
        assert await one.lane.fetch_choices(SECOND.id, holders) == SECOND.choices

    on_bench(main)


def test_choices_from_which_this_node_derives_the_value_itself_are_asked_of_nobody() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        holder = await with_chain(bench, "holder", FIRST, who=1)
        await bench.link(one, holder)
        await trio.sleep(0.5)
        holder.role.choices[SECOND.id] = dump_body(SECOND)
        found: list[bytes | None] = []

        async def fetch() -> None:
            found.append(await one.lane.fetch_choices(SECOND.id, [holder.node.transport.peer]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            await trio.sleep(OWN_S / 2)
            one.role.choices[SECOND.id] = dump_body(SECOND)
        assert found == [None]

    on_bench(main)


def test_asking_for_choices_ends_with_the_height() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        found: list[bytes | None] = []

        async def ask() -> None:
            found.append(await one.lane.fetch_choices(SECOND.id, [VALIDATORS[1].peer]))

        bench.nursery.start_soon(ask)
        await trio.sleep(5.0)
        assert found == []
        await one.lane.adopt(record(SECOND))
        await trio.sleep(2.0)
        assert found == [None]

    on_bench(main)


def test_a_decision_brought_twice_at_a_time_is_adopted_once() -> None:
    async def main(bench: Bench) -> None:
        one = await bench.start("one", VALIDATORS[0])
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one.lane.adopt, record(FIRST))
        await trio.sleep(0.1)
        assert [each.id for each in one.role.adopted] == [FIRST.id]

    on_bench(main)


def test_an_artifact_that_another_trainer_made_is_not_taken_for_its_own() -> None:
    """Announcements are public: naming somebody else's artifact must earn nothing."""

    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        author, copier = (trainer.peer for trainer in TRAINERS[:2])
        schema = SETTING.revision.schema.id
        update = ArtifactKind.UPDATE
        artifact = await one.node.blobs.put(update, schema, b"work", author)
        unowned = await one.node.blobs.put(update, schema, b"work")
        assert await one.lane.fetch(artifact, update, (), owner=author)
        assert not await one.lane.fetch(artifact, update, (), owner=copier)
        assert not await one.lane.fetch(unowned, update, (), owner=copier)

    on_bench(main)


def test_votes_that_the_pool_let_go_of_still_reach_a_validator_that_lacks_them() -> None:
    async def main(bench: Bench) -> None:
        one = await with_chain(bench, "one", FIRST)
        two = await with_chain(bench, "two", FIRST, who=1)
        lost = prevote(2, VALIDATORS[0], None)
        one.role.votes = (lost,)
        two.role.shows = Inventory((), (), ())
        await bench.link(one, two)
        await trio.sleep(8.0)
        assert lost.id in two.lane.pool.held

    on_bench(main)


def test_i10_head_and_outer_state_are_pinned_for_as_many_heights_as_are_kept() -> None:
    outer = OuterRule("nesterov", 700_000, 900_000)
    setting = replace(SETTING, revision=replace(SETTING.revision, outer=outer))
    decisions = [running(setting=setting)]
    for _ in range(KEPT_HEADS):
        last = decisions[-1]
        cohort = [update(last, TRAINERS[0], setting)]
        chosen = choices(last, cohort, all_present(last, setting=setting))
        decisions.append(follow(last, chosen, setting))

    async def main(bench: Bench) -> None:
        one = await bench.start("one", VALIDATORS[0])
        for decision in decisions[:-1]:
            one.lane._heads.pin(decision)
        first, last = decisions[1], decisions[-1]
        assert all(artifact in one.blobs._pins for artifact in artifacts_of(first))
        one.lane._heads.pin(last)
        assert all(artifact in one.blobs._pins for artifact in artifacts_of(last))
        assert decisions[0].head not in one.blobs._pins

    on_bench(main)
