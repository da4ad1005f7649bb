"""A schedule of faults, drawn from a seed, and the task that lets them happen. Virtual seconds.

Every fault ends: a schedule is over by a time that its user sets, so that what must hold after the
last fault (everybody converges) can be checked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from random import Random

import trio

from p2pd.sim.links import LinkFaults, Partition
from p2pd.sim.network import MemoryNetwork


class FaultSet(Enum):
    """What `--faults` names."""

    NONE = "none"
    NETWORK = "network"
    """Bad weather on all links, and partitions."""
    CRASH = "crash"
    """Nodes that die and come back."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Weather:
    """All links behave like this for a while."""

    from_s: float
    until_s: float
    faults: LinkFaults


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition that heals."""

    from_s: float
    until_s: float
    partition: Partition


@dataclass(frozen=True, slots=True)
class Crash:
    """A node dies at any of its awaits, and is started again."""

    from_s: float
    until_s: float
    name: str
    silent: bool
    """As in a power cut: nobody is told."""


Fault = Weather | Cut | Crash

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


def draw_faults(
    seed: int, names: Sequence[str], kinds: FaultSet, *, until_s: float
) -> tuple[Fault, ...]:
    """Faults that befall these nodes, by the time at which they begin; all are over by until_s."""
    if len(names) < 2:
        raise ValueError("faults are drawn for two nodes or more")
    faults: list[Fault] = []
    if kinds in (FaultSet.NETWORK, FaultSet.ALL):
        dice = Random(f"{seed}/weather")
        for start_s, end_s in _windows(dice, until_s, gap_s=(5.0, 40.0), length_s=(5.0, 40.0)):
            faults.append(Weather(start_s, end_s, dice.choice(WEATHERS)))
        dice = Random(f"{seed}/partitions")
        for start_s, end_s in _windows(dice, until_s, gap_s=(10.0, 80.0), length_s=(2.0, 40.0)):
            faults.append(Cut(start_s, end_s, _partition(dice, names)))
    if kinds in (FaultSet.CRASH, FaultSet.ALL):
        for name in names:
            dice = Random(f"{seed}/crashes/{name}")
            windows = _windows(dice, until_s, gap_s=(20.0, 200.0), length_s=(1.0, 40.0))
            faults += [Crash(*window, name, silent=dice.random() < 0.5) for window in windows]
    return tuple(sorted(faults, key=lambda fault: fault.from_s))


async def apply_faults(
    faults: Sequence[Fault],
    network: MemoryNetwork,
    crash: Callable[[Crash], None],
    restart: Callable[[str], None],
) -> None:
    """Lets each fault begin and end at its time. Returns after the last one."""
    calm = network.faults
    moments: list[tuple[float, Callable[[], None]]] = []
    for fault in faults:
        match fault:
            case Weather():
                begin = partial(network.set_faults, fault.faults)
                end = partial(network.set_faults, calm)
            case Cut():
                begin = partial(network.cut, fault.partition)
                end = partial(network.heal, fault.partition)
            case Crash():
                begin, end = partial(crash, fault), partial(restart, fault.name)
        moments += [(fault.from_s, begin), (fault.until_s, end)]
    for at_s, happen in sorted(moments, key=lambda moment: moment[0]):
        await trio.sleep_until(at_s)
        happen()


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
