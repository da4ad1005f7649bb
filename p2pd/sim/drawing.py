"""A schedule of faults, drawn from a seed. Virtual seconds.

Each kind, and each node, has dice of its own: what one of them suffers says nothing about the others.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from p2pd.sim.clock import SKEW_MOST
from p2pd.sim.ends import IDLE_S
from p2pd.sim.faults import (
    CommitCrash,
    Crash,
    Cut,
    Death,
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
from p2pd.sim.links import LinkFaults, Partition
from p2pd.sim.store import Moment

WEATHERS = (
    LinkFaults(loss=0.2),
    LinkFaults(loss=0.6),
    LinkFaults(delay_min_s=0.5, delay_max_s=3.0),
    LinkFaults(delay_min_s=0.005, delay_max_s=1.0, reordering=0.5),
    LinkFaults(duplication=0.5, reordering=0.2),
    LinkFaults(failure=0.5),
    LinkFaults(loss=0.1, duplication=0.1, reordering=0.3, failure=0.1, delay_max_s=0.5),
)
LEAST_S = 1.0
"""A fault that would be shorter than this is left out."""
LEAVING_SHARE = 0.5
"""Of the deaths of trainers and reducers."""
SLOW_S = 3.0
OFFSETS_S = (30.0, 1200.0, 2 * 3600.0, 20 * 24 * 3600.0)
"""By which a wall clock is wrong: within what is tolerated, and beyond what records live."""
WALL_OFF_MOST_S = 120.0
"""By which a wall clock is wrong for good: two of them differ by less than what peer records bear."""
CALM_BEFORE_S, CALM_AFTER_S = 15.0, 20.0
"""Around a restored validator: its last votes arrive everywhere, and reach it again before it votes."""


@dataclass(frozen=True, slots=True)
class Quartz:
    """What both clocks of a machine go by, as long as it is in the fleet."""

    rate: float = 1.0
    off_s: float = 0.0
    """Of the wall clock, when the fleet begins."""

    def wall_s(self, true_s: float) -> float:
        return true_s * self.rate + self.off_s


TRUE_QUARTZ = Quartz()


def draw_quartz(seed: int, name: str, kinds: FaultSet) -> Quartz:
    """Its clocks run fast or slow for good: no fault that ends."""
    if not kinds.has(FaultSet.CLOCK):
        return TRUE_QUARTZ
    dice = Random(f"{seed}/quartz/{name}")
    rate = 1.0 + dice.uniform(-SKEW_MOST, SKEW_MOST)
    return Quartz(rate, dice.uniform(-WALL_OFF_MOST_S, WALL_OFF_MOST_S))


@dataclass(frozen=True, slots=True)
class Named:
    """Nodes that faults may befall."""

    names: tuple[str, ...]
    vital: tuple[str, ...] = ()
    """Validators of so much weight that their lies could split the network: none of them is copied, and one that
    comes back with an old data directory does so while it can hear the others."""
    needed: tuple[str, ...] = ()
    """Validators whose silence could halt it: none of them is copied or comes back with an old data directory."""


def draw_faults(seed: int, nodes: Named, kinds: FaultSet, *, until_s: float) -> tuple[Fault, ...]:
    """Faults by the time at which they begin; all are over by until_s."""
    names = nodes.names
    if len(names) < 2:
        raise ValueError("faults are drawn for two nodes or more")
    faults: list[Fault] = []
    if kinds.has(FaultSet.NETWORK):
        faults += _network(seed, names, until_s)
    for name in names:
        if kinds.has(FaultSet.CRASH):
            faults += _some_leave(seed, name, _crashes(seed, name, until_s))
        if kinds.has(FaultSet.DISK):
            faults += _disks(seed, name, until_s)
        if kinds.has(FaultSet.CLOCK):
            faults += _clocks(seed, name, until_s)
    if kinds.has(FaultSet.IDENTITY):
        faults = _with_identity(seed, nodes, until_s, faults)
    return tuple(sorted(faults, key=lambda fault: (fault.from_s, fault.until_s)))


def _network(seed: int, names: Sequence[str], until_s: float) -> list[Fault]:
    faults: list[Fault] = []
    dice = Random(f"{seed}/weather")
    for start_s, end_s in _windows(dice, until_s, gap_s=(5.0, 40.0), length_s=(5.0, 40.0)):
        faults.append(Weather(start_s, end_s, dice.choice(WEATHERS)))
    dice = Random(f"{seed}/partitions")
    for start_s, end_s in _windows(dice, until_s, gap_s=(10.0, 80.0), length_s=(2.0, 40.0)):
        faults.append(Cut(start_s, end_s, _partition(dice, names)))
    return [*faults, *draw_split(seed, names)]


def draw_split(seed: int, names: Sequence[str]) -> tuple[Cut, ...]:
    """In most seeds, a partition between validators that outlives their links, so that each side sees only itself."""
    dice = Random(f"{seed}/split")
    validators = [name for name in names if name.startswith("validator")]
    if len(validators) < 2 or dice.random() < 0.3:
        return ()
    left = set(dice.sample(validators, dice.randrange(1, len(validators))))
    left.update(name for name in names if name not in validators and dice.random() < 0.5)
    start_s = dice.uniform(2.0, 20.0)
    until_s = start_s + IDLE_S + dice.uniform(5.0, 25.0)
    return (Cut(start_s, until_s, Partition(frozenset(left), frozenset(names) - left)),)


def _crashes(seed: int, name: str, until_s: float) -> Iterator[Death]:
    dice = Random(f"{seed}/crashes/{name}")
    for start_s, end_s in _windows(dice, until_s, gap_s=(20.0, 200.0), length_s=(1.0, 40.0)):
        kind = dice.randrange(4)
        if kind == 0:
            moment = dice.choice(tuple(Moment))
            yield CommitCrash(start_s, end_s, name, dice.randrange(1, 8), moment)
        elif kind == 1:
            yield StepCrash(start_s, end_s, name, dice.randrange(1, 200))
        else:
            yield Crash(start_s, end_s, name, silent=dice.random() < 0.5)


def _some_leave(seed: int, name: str, deaths: Iterable[Death]) -> Iterator[Fault]:
    """Trainers and reducers are mostly stopped by people, who let them say so."""
    dice = Random(f"{seed}/leaving/{name}")
    for death in deaths:
        leaves = dice.random() < LEAVING_SHARE
        if leaves and name.startswith(("trainer", "reducer")):
            yield Leaving(death.from_s, death.until_s, name)
        else:
            yield death


def _disks(seed: int, name: str, until_s: float) -> Iterator[Fault]:
    dice = Random(f"{seed}/disks/{name}")
    for start_s, end_s in _windows(dice, until_s, gap_s=(20.0, 400.0), length_s=(2.0, 30.0)):
        if dice.random() < 0.5:
            yield FullDisk(start_s, end_s, name)
        else:
            yield SlowDisk(start_s, end_s, name, dice.uniform(0.1, SLOW_S))


def _clocks(seed: int, name: str, until_s: float) -> Iterator[Fault]:
    dice = Random(f"{seed}/clocks/{name}")
    for start_s, end_s in _windows(dice, until_s, gap_s=(0.0, 300.0), length_s=(5.0, 60.0)):
        offset_s = dice.choice(OFFSETS_S) * dice.uniform(0.5, 1.0) * dice.choice((-1, 1))
        yield WrongClock(start_s, end_s, name, offset_s)


def _with_identity(seed: int, nodes: Named, until_s: float, faults: list[Fault]) -> list[Fault]:
    """In most seeds one node is restored, or lives twice: then nothing else kills it meanwhile."""
    dice = Random(f"{seed}/identity")
    name = dice.choice(nodes.names)
    start_s = dice.uniform(5.0, until_s / 3)
    struck_s = start_s + dice.uniform(3.0, 20.0)
    end_s = struck_s + dice.uniform(2.0, 20.0)
    draw, calm, empty = dice.random(), dice.random() < 0.5, dice.random() < 0.3
    if draw < 0.3 or end_s > until_s or name in nodes.needed:
        return faults
    identity: Fault = Restore(start_s, end_s, name, struck_s, calm or name in nodes.vital)
    if draw > 0.65 and name not in nodes.vital:
        identity = Twin(start_s, end_s, name, empty)
    if isinstance(identity, Restore) and identity.calm:
        low_s, high_s = struck_s - CALM_BEFORE_S, end_s + CALM_AFTER_S
        faults = [fault for fault in faults if fault.until_s <= low_s or fault.from_s >= high_s]
    return [*(fault for fault in faults if not _kills(fault, name, start_s, end_s)), identity]


def _kills(fault: Fault, name: str, from_s: float, until_s: float) -> bool:
    if not isinstance(fault, Death) or fault.name != name:
        return False
    return fault.from_s <= until_s and from_s <= fault.until_s


def _windows(
    dice: Random, until_s: float, *, gap_s: tuple[float, float], length_s: tuple[float, float]
) -> Iterator[tuple[float, float]]:
    """Stretches of time that do not overlap, up to until_s."""
    now_s = 0.0
    while True:
        start_s = now_s + dice.uniform(*gap_s)
        now_s = min(until_s, start_s + dice.uniform(*length_s))
        if now_s - start_s < LEAST_S:
            return
        yield start_s, now_s


def _partition(dice: Random, names: Sequence[str]) -> Partition:
    left = frozenset(dice.sample(names, dice.randrange(1, len(names))))
    return Partition(left, frozenset(names) - left, one_way=dice.random() < 0.3)
