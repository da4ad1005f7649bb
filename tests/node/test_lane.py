"""One revision on a node: its chain, its open height, and who may have what."""

from dataclasses import replace

import pytest
import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import artifacts_of
from p2pd.core.messages import Report
from p2pd.core.validator.body import dump_body
from p2pd.core.voting.exchange import Inventory
from p2pd.core.work import OuterRule
from p2pd.errors import RemoteError
from p2pd.node.catch_up import OWN_S
from p2pd.node.heads import KEPT_HEADS
from p2pd.ports import Table
from p2pd.wire.envelope import dump, seal
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
    update,
)
from tests.node.lane_bench import FIRST, MINE, SECOND, with_chain
from tests.node.node_bench import Bench, on_bench


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
