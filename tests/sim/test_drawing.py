"""Schedules of faults as seeds draw them."""

from itertools import pairwise

import pytest

from p2pd.node.peer_table import FUTURE_MS
from p2pd.sim.clock import SKEW_MOST
from p2pd.sim.drawing import (
    CALM_AFTER_S,
    CALM_BEFORE_S,
    TRUE_QUARTZ,
    Named,
    draw_faults,
    draw_quartz,
    draw_split,
)
from p2pd.sim.ends import IDLE_S
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
)
from p2pd.sim.shape import FAULTS_END_S, FleetShape

NAMES = ("validator1", "validator2", "validator3", "trainer1", "trainer2", "seed1")
UNTIL_S = 400.0
SEEDS = range(30)
DEATHS = (Crash, Leaving, CommitCrash, StepCrash)


def drawn(seed: int, kinds: FaultSet = FaultSet.ALL) -> tuple[Fault, ...]:
    return draw_faults(seed, Named(NAMES), kinds, until_s=UNTIL_S)


def test_the_seed_fixes_the_schedule() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_in_order_and_are_over_in_time(seed: int) -> None:
    faults = drawn(seed)
    assert all(one.from_s <= other.from_s for one, other in pairwise(faults))
    assert all(0 < fault.from_s < fault.until_s <= UNTIL_S for fault in faults)
    for name in NAMES:
        deaths = [fault for fault in faults if isinstance(fault, DEATHS) and fault.name == name]
        assert all(one.until_s < other.from_s for one, other in pairwise(deaths))
    for cut in faults:
        if isinstance(cut, Cut):
            assert cut.partition.left
            assert cut.partition.right
            assert cut.partition.left | cut.partition.right == set(NAMES)


def test_clocks_of_a_fleet_differ_by_less_than_peer_records_bear_and_only_as_a_fault() -> None:
    quartzes = [draw_quartz(seed, name, FaultSet.CLOCK) for seed in SEEDS for name in NAMES]
    assert quartzes == [draw_quartz(seed, name, FaultSet.ALL) for seed in SEEDS for name in NAMES]
    assert all(abs(one.rate - 1.0) <= SKEW_MOST for one in quartzes)
    rates = [one.rate for one in quartzes]
    assert min(rates) < 1.0 - SKEW_MOST / 2
    assert max(rates) > 1.0 + SKEW_MOST / 2
    walls_ms = [one.wall_s(3600.0) * 1000 for one in quartzes]
    assert max(walls_ms) - min(walls_ms) < FUTURE_MS
    assert draw_quartz(0, NAMES[0], FaultSet.NETWORK) == TRUE_QUARTZ


def test_a_set_of_faults_has_only_its_kinds() -> None:
    def kinds(which: FaultSet) -> set[type]:
        return {type(fault) for seed in range(10) for fault in drawn(seed, which)}

    assert kinds(FaultSet.NONE) == set()
    assert kinds(FaultSet.NETWORK) == {Weather, Cut}
    assert kinds(FaultSet.CRASH) == set(DEATHS)
    assert kinds(FaultSet.DISK) == {FullDisk, SlowDisk}
    assert kinds(FaultSet.CLOCK) == {WrongClock}
    assert kinds(FaultSet.IDENTITY) == {Restore, Twin}
    assert len(kinds(FaultSet.ALL)) == 11


def test_nothing_else_kills_a_node_that_is_restored_or_lives_twice() -> None:
    seen = 0
    for seed in SEEDS:
        faults = drawn(seed)
        for identity in (one for one in faults if isinstance(one, Restore | Twin)):
            seen += 1
            for death in (one for one in faults if isinstance(one, DEATHS)):
                if death.name == identity.name:
                    apart = death.until_s < identity.from_s or identity.until_s < death.from_s
                    assert apart
    assert seen > 10


def test_a_validator_that_could_split_the_network_is_not_copied_and_restored_in_calm_only() -> None:
    restored = 0
    for seed in range(200):
        faults = draw_faults(seed, Named(NAMES, vital=NAMES[:3]), FaultSet.ALL, until_s=UNTIL_S)
        for one in faults:
            if isinstance(one, Twin):
                assert one.name not in NAMES[:3]
            elif isinstance(one, Restore) and one.name in NAMES[:3]:
                restored += 1
                low_s, high_s = one.struck_s - CALM_BEFORE_S, one.until_s + CALM_AFTER_S
                others = [fault for fault in faults if fault is not one]
                assert all(f.until_s <= low_s or f.from_s >= high_s for f in others)
    assert restored > 10


def test_one_without_whom_there_is_no_quorum_never_comes_back_with_an_old_data_directory() -> None:
    nodes = Named(NAMES, vital=NAMES[:3], needed=NAMES[:1])
    for seed in range(200):
        for one in draw_faults(seed, nodes, FaultSet.IDENTITY, until_s=UNTIL_S):
            assert isinstance(one, Restore | Twin)
            assert one.name != NAMES[0]


def test_partitions_split_validators_for_longer_than_their_links_live() -> None:
    names = FleetShape().names()
    cuts = [cut for seed in range(20) for cut in draw_split(seed, names)]
    assert len(cuts) > 8
    for cut in cuts:
        assert cut.until_s - cut.from_s > IDLE_S
        assert cut.until_s < FAULTS_END_S
        for side in (cut.partition.left, cut.partition.right):
            assert any(name.startswith("validator") for name in side)
    assert draw_split(0, FleetShape(validators=1, quorum=1).names()) == ()
