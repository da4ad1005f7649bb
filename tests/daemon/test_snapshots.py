"""The status of nodes of a simulated fleet."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import trio

from p2pd.core.decision import PlanState
from p2pd.core.messages import Report
from p2pd.core.signed import Signed
from p2pd.daemon.rates import Rates
from p2pd.daemon.snapshots import Snapshots
from p2pd.node.chronicle import Chronicle
from p2pd.node.node import Node
from p2pd.node.steps import Step
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import SimFleet
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FleetShape

WINDOWS = 8
REPORTS_S = 5.0
"""Virtual: what the last measurements may take to come in."""


def after_a_run(look: Callable[[Node], Awaitable[None]], who: str = "validator1") -> None:
    """Has a look at a node once the revision is over."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(1, FleetShape(windows=WINDOWS, faults=FaultSet.NONE), nursery)
            assert await fleet.run()
            await trio.sleep(REPORTS_S)
            lane = fleet.lives[who].lane
            assert lane is not None
            assert isinstance(lane._hub, Node)
            await look(lane._hub)
            nursery.cancel_scope.cancel()

    assert run_seeded(1, main, 600.0)


def test_i12_what_old_decisions_say_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    reports = Chronicle.reports

    def counted(chronicle: Chronicle, height: int) -> tuple[Signed[Report], ...]:
        read.append(height)
        return reports(chronicle, height)

    async def look(node: Node) -> None:
        snapshots = Snapshots(node, "v1", Rates(dict))
        monkeypatch.setattr(Chronicle, "reports", counted)
        first = await snapshots.take(1.0)
        assert len(read) >= WINDOWS
        read.clear()
        second = await snapshots.take(2.0)
        assert len(read) <= 1
        assert second.revisions == first.revisions

    after_a_run(look)


def test_a_measurement_that_comes_after_a_height_was_first_shown_is_shown() -> None:
    """However many heights pass until the next look: a screen looks once a second."""
    apart, looks = 5, [0]

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(1, FleetShape(windows=WINDOWS * 2, faults=FaultSet.NONE), nursery)
            nursery.start_soon(fleet.run)
            await trio.sleep(1.0)
            lane = fleet.lives["validator1"].lane
            assert lane is not None
            assert isinstance(lane._hub, Node)
            snapshots = Snapshots(lane._hub, "v1", Rates(dict))
            while lane.decision.state.plan.state is not PlanState.FINISHED:
                await lane.moved.wait()
                if lane.decision.height >= looks[-1] + apart:
                    (seen,) = (await snapshots.take(1.0)).revisions
                    if seen.decisions[-1].metric is None:
                        looks.append(seen.height)
            await trio.sleep(REPORTS_S)
            (revision,) = (await snapshots.take(2.0)).revisions
            promoted = [row for row in revision.decisions if row.outcome == "promoted"]
            assert len(promoted) == WINDOWS * 2
            assert all(row.metric is not None for row in promoted)
            nursery.cancel_scope.cancel()

    run_seeded(1, main, 600.0)
    assert looks[1:], "no height was seen before it was measured"


def test_the_leases_of_a_height_are_counted_and_its_seconds_have_parts() -> None:
    async def look(node: Node) -> None:
        (revision,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        for row in revision.decisions:
            if row.outcome == "promoted":
                assert row.leases >= row.accepted + row.rejected > 0
                assert row.vote_s is not None
                assert row.overhead_s is not None
                assert 0 < row.vote_s <= row.overhead_s

    after_a_run(look)


def test_a_viewer_that_is_told_of_no_updates_shows_how_long_a_height_took() -> None:
    async def look(node: Node) -> None:
        (revision,) = (await Snapshots(node, "w1", Rates(dict)).take(1.0)).revisions
        rows = [row for row in revision.decisions if row.outcome == "promoted"]
        assert all(row.train_s is None for row in rows)
        assert all(row.took_s for row in rows[1:])

    after_a_run(look, who="viewer1")


def test_a_status_tells_of_every_height_and_its_measurements() -> None:
    async def look(node: Node) -> None:
        (revision,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        promoted = [row for row in revision.decisions if row.outcome == "promoted"]
        assert [row.height for row in revision.decisions] == list(range(1, revision.height + 1))
        assert len(promoted) == revision.heads == WINDOWS
        assert all(row.metric is not None and row.accepted for row in promoted)
        assert revision.plan == "finished"

    after_a_run(look)


def test_a_node_says_what_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(node: Node) -> None:
        snapshots = Snapshots(node, "v1", Rates(dict))
        assert (await snapshots.take(1.0)).node.degraded == ()
        node.discovery.twin = "10.0.0.9:1"
        assert (await snapshots.take(2.0)).node.degraded == (
            "this identity is live at 10.0.0.9:1 as well",
        )

    after_a_run(look)


def test_a_restarted_node_shows_what_its_ledger_has_of_earlier_lives() -> None:
    async def look(node: Node) -> None:
        (lane,) = node.lanes.values()
        (before,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        lane.history.clear()  # which is in memory, and so of one life
        (after,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        assert [(row.height, row.head, row.metric, row.accepted) for row in after.decisions] == [
            (row.height, row.head, row.metric, row.accepted) for row in before.decisions
        ]
        assert len(after.decisions) >= WINDOWS
        assert all(
            (row.train_s, row.overhead_s, row.steps) == (None, None, ()) for row in after.decisions
        )

    after_a_run(look)


def test_the_last_measurement_is_found_however_long_ago_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(node: Node) -> None:
        (recent,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        monkeypatch.setattr("p2pd.daemon.snapshots.DECISIONS_SHOWN", 0)
        (old,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        assert old.decisions == ()
        assert recent.measured is not None
        assert old.measured == recent.measured
        assert recent.measured.metric == recent.decisions[recent.measured.height - 1].metric

    after_a_run(look)


def test_a_height_whose_updates_this_node_did_not_see_has_no_times() -> None:
    async def look(node: Node) -> None:
        (lane,) = node.lanes.values()
        *_, last = lane.history
        reached = dict(last.reached)
        del reached[Step.PUBLISH]
        lane.history[-1] = replace(last, reached=reached)
        (found,) = (await Snapshots(node, "v1", Rates(dict)).take(1.0)).revisions
        seen, unseen = found.decisions[-2:]
        assert (unseen.train_s, unseen.overhead_s) == (None, None)
        assert seen.train_s
        assert seen.overhead_s

    after_a_run(look)


def test_a_trainer_says_what_share_of_its_time_it_works() -> None:
    async def look(node: Node) -> None:
        node.share = 0.5
        snapshots = Snapshots(node, "t1", Rates(dict))
        (revision,) = (await snapshots.take(1.0)).revisions
        assert revision.training is not None
        assert revision.training.stage == "finished (trainer.share 0.5)"

    after_a_run(look, "trainer1")
