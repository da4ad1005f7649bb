"""Reported faults of restarts: a run that was stopped goes on as if it had not been, and the newest state wins."""

import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

import pytest
import trio

from p2pd.core.ids import ArtifactId, peer_id
from p2pd.node.catch_up import LEAP_HEIGHTS
from p2pd.sim.links import Partition
from tests.faults.scene import Scene, calm, cohort, play, promoted

HEADS = 10


def heads_of(script: Callable[[Scene], Awaitable[None]]) -> list[ArtifactId]:
    """Without reducers, what is decided depends on the cohorts alone."""
    shape = calm(reducers=0)
    # Trainers say how long they took, roughly: fetching a head, or not, makes no difference to so much.
    pace = {f"trainer{n}": 4.0 for n in range(1, 4)}
    scene = play(script, shape, paces=pace)
    return [decision.head for decision in promoted(scene.chain)]


def test_a_run_stopped_on_all_nodes_goes_on_to_the_same_heads() -> None:
    async def undisturbed(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.promotes(HEADS + 5)

    async def stopped(scene: Scene) -> None:
        names = scene.fleet.shape.names()
        scene.start(*names)
        await scene.promotes(HEADS)
        await scene.until("all have adopted it", lambda: scene.agreed)
        scene.kill(*names)
        await trio.sleep(120)
        scene.start(*names)
        await scene.promotes(HEADS + 5)

    assert heads_of(stopped)[: HEADS + 5] == heads_of(undisturbed)[: HEADS + 5]


def test_i07_no_slice_is_trained_twice_because_the_validators_were_restarted() -> None:
    """In the middle of an epoch; what was dealt in vain is dealt again, and nothing else."""

    async def script(scene: Scene) -> None:
        names = scene.fleet.shape.names()
        validators = [name for name in names if name.startswith("validator")]
        scene.start(*names)
        while scene.tip.state.progress.epoch < 2:
            await scene.promotes(scene.tip.state.progress.heads + 2)
            scene.kill(*validators)
            await trio.sleep(5)
            scene.start(*validators)

    scene = play(script, calm(), paces={f"trainer{n}": 1.0 for n in range(1, 4)})
    revision = scene.fleet.revision.revision
    delivered: dict[int, list[int]] = {}
    for before, decision in pairwise(scene.chain):
        for candidate in cohort(decision):
            lease = before.state.plan.lease_of(peer_id(candidate.update.author))
            assert lease is not None
            delivered.setdefault(before.state.progress.epoch, []).extend(lease.shards)
    assert len(delivered) >= 2
    for epoch in (0, 1):
        assert sorted(delivered[epoch]) == list(range(revision.data.shards))


def test_a_newcomer_takes_the_newest_of_what_its_neighbours_offer_and_that_alone() -> None:
    stale = ("seed1", "viewer1", "trainer3")

    async def script(scene: Scene) -> None:
        scene.start(*(name for name in scene.fleet.shape.names() if name != "trainer4"))
        await scene.promotes(3)
        await scene.until("all have adopted it", lambda: scene.agreed)
        current = frozenset(scene.fleet.shape.names()) - {*stale, "trainer4"}
        scene.fleet.network.cut(Partition(frozenset(stale), current))
        old = {decision.head for decision in scene.chain}
        await scene.promotes(6)
        scene.start("trainer4")
        life = scene.fleet.lives["trainer4"]
        await scene.until(
            "the newcomer is up to date",
            lambda: life.lane is not None and life.lane.decision.height >= scene.tip.height,
            limit_s=30,
        )
        await scene.promotes(8)
        held = {head for head in old if life.blobs.has(head)}
        assert held == set(), "an old head was fetched too"

    play(script, calm(trainers=4))


def test_who_comes_very_late_leaps_and_works_on() -> None:
    async def script(scene: Scene) -> None:
        scene.start(*(name for name in scene.fleet.shape.names() if name != "trainer4"))
        await scene.promotes(LEAP_HEIGHTS + 2, limit_s=1500)
        scene.start("trainer4")
        life, peer = scene.fleet.lives["trainer4"], scene.peer("trainer4")
        await scene.until(
            "the latecomer has a lease", lambda: scene.tip.state.plan.lease_of(peer) is not None
        )
        assert life.lane is not None
        held = [life.lane.chronicle.record(height) is None for height in range(1, LEAP_HEIGHTS)]
        assert all(held), "it fetched what it could leap over"
        await scene.promotes(scene.tip.state.progress.heads + 3)
        row = next(row for row in scene.tip.state.standing if row.peer == peer)
        assert row.delivered >= 2

    play(script, calm(trainers=4), paces={f"trainer{n}": 0.2 for n in range(1, 5)})


def test_fifty_peers_that_die_one_by_one_take_nobody_with_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mortal = ("trainer1", "trainer2", "reducer1", "viewer1", "seed1")
    dice = Random(1)

    async def script(scene: Scene) -> None:
        scene.start(*scene.fleet.shape.names())
        await scene.promotes(1)
        for turn in range(50):
            victim = dice.choice(mortal)
            scene.kill(victim, silent=turn % 2 == 0)
            await trio.sleep(dice.uniform(0.1, 1.5))
            scene.start(victim)
            await trio.sleep(dice.uniform(0.1, 1.5))
        await scene.promotes(scene.tip.state.progress.heads + 2)
        await scene.until("all have adopted it", lambda: scene.agreed)

    caplog.set_level(logging.WARNING)
    scene = play(script, calm())  # a task that fails of it would end the run
    assert scene.tip.height > 10
    failed = [r.getMessage() for r in caplog.records if "failed" in r.getMessage()]
    assert failed == []
