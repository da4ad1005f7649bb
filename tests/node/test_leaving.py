"""Nodes of a simulated fleet that leave. Seconds are virtual."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from p2pd.core.signed import Signed
from p2pd.node.node import TELL_S, Node
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import SimFleet
from p2pd.sim.links import LinkFaults
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FleetShape

SHAPE = FleetShape(windows=100, trainers=2, faults=FaultSet.NONE)
MET_S = 6.0


def in_a_fleet(main: Callable[[SimFleet], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(1, SHAPE, nursery)
            for name in fleet.names:
                fleet.world.start(name)
            await trio.sleep(MET_S)
            await main(fleet)
            nursery.cancel_scope.cancel()

    assert run_seeded(1, bounded, 300.0)


def node_of(fleet: SimFleet, name: str) -> Node:
    node = fleet.lives[name].node
    assert node is not None
    return node


def said(fleet: SimFleet, name: str, kind: str) -> list[Signed[object]]:
    """What a validator holds of another node."""
    lane = fleet.lives["validator1"].lane
    assert lane is not None
    return [
        one
        for one in lane.pool.held.values()
        if one.kind == kind and one.author == fleet.signers[name].key
    ]


@pytest.mark.parametrize("name", ["trainer2", "reducer1"])
def test_once_it_has_left_the_others_know_and_it_says_no_more(name: str) -> None:
    async def main(fleet: SimFleet) -> None:
        assert said(fleet, name, "beacon")
        assert said(fleet, name, "leave") == []
        await node_of(fleet, name).leave()
        (leave,) = said(fleet, name, "leave")
        height = leave.scope.height
        await trio.sleep(30.0)
        lane = fleet.lives["validator1"].lane
        assert lane is not None
        assert lane.pool.height > height + 2
        for kind in ("beacon", "update", "leave"):
            assert said(fleet, name, kind) == []

    in_a_fleet(main)


def test_it_waits_no_longer_than_it_may_for_those_that_are_slow() -> None:
    async def main(fleet: SimFleet) -> None:
        fleet.network.set_faults(LinkFaults(delay_min_s=50.0, delay_max_s=60.0))
        start_s = trio.current_time()
        await node_of(fleet, "trainer2").leave()
        assert trio.current_time() == pytest.approx(start_s + TELL_S)

    in_a_fleet(main)


@pytest.mark.parametrize("name", ["validator1", "seed1", "viewer1"])
def test_one_that_nobody_waits_for_leaves_at_once_and_without_a_word(name: str) -> None:
    async def main(fleet: SimFleet) -> None:
        fleet.network.set_faults(LinkFaults(delay_min_s=50.0, delay_max_s=60.0))
        start_s = trio.current_time()
        await node_of(fleet, name).leave()
        assert trio.current_time() == start_s
        assert said(fleet, name, "leave") == []

    in_a_fleet(main)


def test_one_that_has_not_begun_has_nothing_to_say() -> None:
    async def main(fleet: SimFleet) -> None:
        await fleet._node(fleet.lives["trainer2"]).leave()
        assert said(fleet, "trainer2", "leave") == []

    in_a_fleet(main)
