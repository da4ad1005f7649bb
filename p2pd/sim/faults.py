"""What may go wrong, and the task that lets it happen. Virtual seconds.

Every fault ends: a schedule is over by a time that its user sets, so that what must hold after the
last fault (everybody converges) can be checked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol, assert_never

import trio

from p2pd.sim.disk import Disk
from p2pd.sim.links import LinkFaults, Partition
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.store import Moment


class FaultSet(Enum):
    """What `--faults` names."""

    NONE = "none"
    NETWORK = "network"
    """Bad weather on all links, and partitions."""
    CRASH = "crash"
    """Nodes that die, anywhere, and come back."""
    DISK = "disk"
    """Disks that are full, or slow."""
    CLOCK = "clock"
    """Wall clocks that are wrong."""
    IDENTITY = "identity"
    """A node that comes back with an old data directory, or lives twice."""
    LIARS = "liars"
    """Nodes of every role that break the rules, as many as the set of validators withstands."""
    ALL = "all"

    def has(self, kind: "FaultSet") -> bool:
        return self in (kind, FaultSet.ALL)


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
    """A node dies wherever it is at that time, and is started again."""

    from_s: float
    until_s: float
    name: str
    silent: bool
    """As in a power cut: nobody is told."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A node is stopped as by a signal: it says so first. It is started again."""

    from_s: float
    until_s: float
    name: str


@dataclass(frozen=True, slots=True)
class CommitCrash:
    """A node dies in one of its next commits, just before it is durable or just after."""

    from_s: float
    until_s: float
    name: str
    commits: int
    """In the how many-th."""
    moment: Moment


@dataclass(frozen=True, slots=True)
class StepCrash:
    """A node dies at one of its next awaits, also where no time passes."""

    from_s: float
    until_s: float
    name: str
    steps: int
    """After so many steps of its tasks."""


@dataclass(frozen=True, slots=True)
class FullDisk:
    """A node can write nothing for a while."""

    from_s: float
    until_s: float
    name: str


@dataclass(frozen=True, slots=True)
class SlowDisk:
    """A node's writes take up to so much longer for a while."""

    from_s: float
    until_s: float
    name: str
    slow_s: float


@dataclass(frozen=True, slots=True)
class WrongClock:
    """A node's wall clock jumps, and back again at the end."""

    from_s: float
    until_s: float
    name: str
    offset_s: float


@dataclass(frozen=True, slots=True)
class Restore:
    """A node dies at struck_s, and comes back with its data directory as it was at from_s."""

    from_s: float
    until_s: float
    name: str
    struck_s: float
    calm: bool
    """Nothing else goes wrong from shortly before it dies until it has had time to hear the others."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A second node lives with this node's key, from a copy of its data directory or an empty one."""

    from_s: float
    until_s: float
    name: str
    empty: bool


Fault = (
    Weather
    | Cut
    | Crash
    | Leaving
    | CommitCrash
    | StepCrash
    | FullDisk
    | SlowDisk
    | WrongClock
    | Restore
    | Twin
)


Death = Crash | Leaving | CommitCrash | StepCrash


class World(Protocol):
    """What faults befall."""

    network: MemoryNetwork

    def start(self, name: str) -> None:
        """Unless it lives."""
        ...

    def kill(self, name: str, *, silent: bool) -> None:
        """Unless it is dead."""
        ...

    def leave(self, name: str) -> None:
        """Unless it is dead: lets it say so, and ends it."""
        ...

    def kill_in_commit(self, name: str, commits: int, moment: Moment) -> None: ...

    def kill_in_step(self, name: str, steps: int) -> None: ...

    def disk(self, name: str) -> Disk: ...

    def set_clock(self, name: str, offset_s: float) -> None: ...

    def back_up(self, name: str) -> None: ...

    def restore(self, fault: Restore) -> None:
        """Kills the node, and gives it its data directory of the backup."""
        ...

    def start_twin(self, fault: Twin) -> None: ...

    def end_twin(self, name: str) -> None: ...


Happening = tuple[float, Callable[[], None]]


async def apply_faults(faults: Sequence[Fault], world: World) -> None:
    """Lets each fault begin and end at its time. Returns after the last one."""
    moments = [moment for fault in faults for moment in _moments(fault, world)]
    for at_s, happen in sorted(moments, key=lambda moment: moment[0]):
        await trio.sleep_until(at_s)
        happen()


def _moments(fault: Fault, world: World) -> list[Happening]:
    begin: Callable[[], None]
    end: Callable[[], None]
    match fault:
        case Weather():
            begin = partial(world.network.set_faults, fault.faults)
            end = partial(world.network.set_faults, world.network.faults)
        case Cut():
            begin = partial(world.network.cut, fault.partition)
            end = partial(world.network.heal, fault.partition)
        case FullDisk() | SlowDisk() | WrongClock():
            begin, end = _of_machine(fault, world)
        case Restore():
            struck = (fault.struck_s, partial(world.restore, fault))
            begin, end = partial(world.back_up, fault.name), partial(world.start, fault.name)
            return [(fault.from_s, begin), struck, (fault.until_s, end)]
        case Twin():
            begin, end = partial(world.start_twin, fault), partial(world.end_twin, fault.name)
        case _:
            begin, end = _of_process(fault, world), partial(world.start, fault.name)
    return [(fault.from_s, begin), (fault.until_s, end)]


def _of_process(fault: Death, world: World) -> Callable[[], None]:
    match fault:
        case Crash():
            return partial(world.kill, fault.name, silent=fault.silent)
        case Leaving():
            return partial(world.leave, fault.name)
        case CommitCrash():
            return partial(world.kill_in_commit, fault.name, fault.commits, fault.moment)
        case StepCrash():
            return partial(world.kill_in_step, fault.name, fault.steps)
        case _:
            assert_never(fault)


def _of_machine(
    fault: FullDisk | SlowDisk | WrongClock, world: World
) -> tuple[Callable[[], None], Callable[[], None]]:
    def fill(full: bool) -> None:
        world.disk(fault.name).full = full

    def slow(slow_s: float) -> None:
        world.disk(fault.name).slow_s = slow_s

    match fault:
        case FullDisk():
            return partial(fill, True), partial(fill, False)
        case SlowDisk():
            return partial(slow, fault.slow_s), partial(slow, 0.0)
        case WrongClock():
            set_clock = partial(world.set_clock, fault.name)
            return partial(set_clock, fault.offset_s), partial(set_clock, 0.0)
        case _:
            assert_never(fault)
