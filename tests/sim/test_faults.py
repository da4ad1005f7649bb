"""Each fault begins and ends at its time."""

import pytest
import trio

from p2pd.sim.faults import (
    CommitCrash,
    Crash,
    Cut,
    Fault,
    FaultSet,
    FullDisk,
    Leaving,
    Restore,
    SlowDisk,
    StepCrash,
    Twin,
    Weather,
    WrongClock,
    apply_faults,
)
from p2pd.sim.links import LinkFaults, Partition
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.run import run_seeded
from p2pd.sim.store import Moment
from tests.sim.worlds import World


def applied(*faults: Fault) -> list[tuple[float, object]]:
    world = World(MemoryNetwork(0))

    async def main() -> None:
        await apply_faults(faults, world)

    assert run_seeded(0, main, 60.0)
    return world.log


def test_links_are_as_bad_as_the_weather_and_cut_while_it_lasts() -> None:
    network = MemoryNetwork(0)
    calm, storm = network.faults, LinkFaults(loss=0.5)
    split = Partition(frozenset({"a"}), frozenset({"b"}), one_way=True)

    async def main() -> None:
        faults: list[Fault] = [Weather(1.0, 4.0, storm), Cut(2.0, 3.0, split)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(apply_faults, faults, World(network))
            await trio.sleep(2.25)
            assert network.faults == storm
            assert network.blocked("a", "b")
            assert not network.blocked("b", "a")
            assert network.severed("b", "a")
            await trio.sleep(1.0)
            assert not network.blocked("a", "b")
        assert network.faults == calm
        assert trio.current_time() == pytest.approx(4.0)

    assert run_seeded(0, main, 60.0)


@pytest.mark.parametrize(
    ("fault", "begins"),
    [
        (Crash(1.0, 3.0, "a", silent=True), ("kill", "a", True)),
        (Leaving(1.0, 3.0, "a"), ("leave", "a")),
        (CommitCrash(1.0, 3.0, "a", 4, Moment.AFTER), ("commit", "a", 4, Moment.AFTER)),
        (StepCrash(1.0, 3.0, "a", 17), ("step", "a", 17)),
    ],
)
def test_what_dies_is_started_again(fault: Fault, begins: tuple[object, ...]) -> None:
    assert applied(fault) == [(1.0, begins), (3.0, ("start", "a"))]


def test_a_restored_node_has_what_was_backed_up_before_it_died() -> None:
    assert applied(Restore(1.0, 3.0, "a", 2.0, calm=True)) == [
        (1.0, ("back up", "a")),
        (2.0, ("restore", "a")),
        (3.0, ("start", "a")),
    ]


def test_a_twin_lives_for_a_while() -> None:
    twin = Twin(1.0, 3.0, "a", empty=True)
    assert applied(twin) == [(1.0, ("twin", "a", True)), (3.0, ("no twin", "a"))]


def test_a_clock_is_wrong_for_a_while() -> None:
    clock = WrongClock(1.0, 3.0, "a", -50.0)
    assert applied(clock) == [(1.0, ("clock", "a", -50.0)), (3.0, ("clock", "a", 0.0))]


def test_a_disk_is_full_or_slow_for_a_while() -> None:
    world = World(MemoryNetwork(0))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            faults: list[Fault] = [FullDisk(1.0, 3.0, "a"), SlowDisk(2.0, 4.0, "b", 1.5)]
            nursery.start_soon(apply_faults, faults, world)
            await trio.sleep(2.5)
            assert world.disk("a").full
            assert world.disk("b").slow_s == 1.5
        assert not world.disk("a").full
        assert world.disk("b").slow_s == 0.0

    assert run_seeded(0, main, 60.0)


def test_all_has_every_kind_and_each_kind_itself() -> None:
    for kind in FaultSet:
        assert FaultSet.ALL.has(kind)
        assert kind.has(kind)
    assert not FaultSet.DISK.has(FaultSet.CLOCK)
    assert not FaultSet.NONE.has(FaultSet.CRASH)
