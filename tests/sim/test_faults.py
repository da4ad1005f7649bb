from itertools import pairwise

import pytest
import trio

from p2pd.sim.faults import Crash, Cut, Fault, FaultSet, Weather, apply_faults, draw_faults
from p2pd.sim.links import LinkFaults, Partition
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.run import run_seeded

NAMES = [f"node{n}" for n in range(6)]
UNTIL_S = 400.0


def drawn(seed: int, kinds: FaultSet = FaultSet.ALL) -> tuple[Fault, ...]:
    return draw_faults(seed, NAMES, kinds, until_s=UNTIL_S)


def test_the_seed_fixes_the_schedule() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_in_order_and_are_over_in_time(seed: int) -> None:
    faults = drawn(seed)
    assert all(one.from_s <= other.from_s for one, other in pairwise(faults))
    assert all(0 < fault.from_s < fault.until_s <= UNTIL_S for fault in faults)
    for name in NAMES:
        crashes = [fault for fault in faults if isinstance(fault, Crash) and fault.name == name]
        assert all(one.until_s < other.from_s for one, other in pairwise(crashes))
    for cut in faults:
        if isinstance(cut, Cut):
            assert cut.partition.left
            assert cut.partition.right
            assert cut.partition.left | cut.partition.right == set(NAMES)


def test_a_set_of_faults_has_only_its_kinds() -> None:
    def kinds(which: FaultSet) -> set[type]:
        return {type(fault) for seed in range(5) for fault in drawn(seed, which)}

    assert kinds(FaultSet.NONE) == set()
    assert kinds(FaultSet.NETWORK) == {Weather, Cut}
    assert kinds(FaultSet.CRASH) == {Crash}
    assert kinds(FaultSet.ALL) == {Weather, Cut, Crash}


def test_each_fault_begins_and_ends_at_its_time() -> None:
    network = MemoryNetwork(0)
    calm, storm = network.faults, LinkFaults(loss=0.5)
    split = Partition(frozenset({"a"}), frozenset({"b"}), one_way=True)
    faults: list[Fault] = [
        Weather(1.0, 4.0, storm),
        Cut(2.0, 3.0, split),
        Crash(2.5, 5.0, "a", silent=True),
    ]
    seen: list[tuple[float, object]] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                apply_faults,
                faults,
                network,
                lambda crash: seen.append((trio.current_time(), crash)),
                lambda name: seen.append((trio.current_time(), name)),
            )
            await trio.sleep(2.25)
            assert network.faults == storm
            assert network.blocked("a", "b")
            assert not network.blocked("b", "a")
            assert network.severed("b", "a")
            await trio.sleep(1.0)
            assert not network.blocked("a", "b")
        assert network.faults == calm
        assert trio.current_time() == pytest.approx(5.0)

    assert run_seeded(0, main, 60.0)
    assert seen == [(2.5, faults[2]), (5.0, "a")]


def test_a_single_node_has_nothing_to_be_cut_off_from() -> None:
    with pytest.raises(ValueError, match="two nodes"):
        draw_faults(0, ["alone"], FaultSet.ALL, until_s=10.0)
