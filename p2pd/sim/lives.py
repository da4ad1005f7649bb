"""The nodes of a simulated fleet over all their lives: how they start, die, and come back. Seconds are virtual.

A node that ends by itself is started again after a while, as a service manager does it.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import trio

from p2pd.errors import P2pError
from p2pd.node.node import Node
from p2pd.sim.clock import KEPT, TRUE, Skew, true_now_s
from p2pd.sim.disk import Disk
from p2pd.sim.drawing import TRUE_QUARTZ, Quartz
from p2pd.sim.faults import Restore, Twin
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.signing import SimSigner
from p2pd.sim.store import MemoryBlobs, MemoryLedger, Moment
from p2pd.sim.watched import WatchedLane

RESTART_S = 2.0
"""After a node has ended by itself."""
TWIN = "-twin"
EPOCH_MS = 1_800_000_000_000
UPTIME_MOST_S = 1e6
"""What a monotonic clock may say when a node starts: no life knows another's."""


@dataclass(slots=True)
class Life:
    """One node of the fleet, over all its lives."""

    name: str
    signer: SimSigner
    disk: Disk
    ledger: MemoryLedger
    blobs: MemoryBlobs
    lives: int = 0
    scope: trio.CancelScope | None = None
    node: Node | None = None
    skew: Skew = TRUE
    """Of its monotonic clock in this life."""
    task: trio.lowlevel.Task | None = None
    lanes: list[WatchedLane] = field(default_factory=list)
    backup: tuple[MemoryLedger, MemoryBlobs] | None = None
    quartz: Quartz = TRUE_QUARTZ
    jump_s: float = 0.0
    """By which its wall clock is wrong besides."""
    copied: bool = False
    """Another node has, or had, its key; or it has lost its memory."""
    fuse: "Fuse | None" = None
    power_off: Callable[[], None] = field(default=lambda: None)

    @property
    def lane(self) -> WatchedLane | None:
        """Of the first revision; None before the first life."""
        return self.lanes[0] if self.lanes else None

    def wall_ms(self) -> int:
        return EPOCH_MS + round((self.quartz.wall_s(true_now_s()) + self.jump_s) * 1000)

    @property
    def role_name(self) -> str:
        return self.name.removesuffix(TWIN).rstrip("0123456789")


class Watcher(Protocol):
    """Is told what the checkers must know of a fleet's fate."""

    def failed(self, name: str, why: str) -> None:
        """A node ended by what no fault explains."""
        ...

    def restored(self, life: Life, *, calm: bool) -> None: ...

    def doubled(self, life: Life) -> None: ...


class Lives:
    """Implements World for faults."""

    def __init__(
        self,
        seed: int,
        network: MemoryNetwork,
        nursery: trio.Nursery,
        build: Callable[[Life], Awaitable[Node]],
        watcher: Watcher,
    ) -> None:
        self.network = network
        self.all: dict[str, Life] = {}
        self._seed = seed
        self._nursery = nursery
        self._build = build
        self._watcher = watcher

    def add(self, name: str, signer: SimSigner, quartz: Quartz, quota_bytes: int) -> None:
        disk = Disk(Random(f"{self._seed}/{name}/disk"))
        ledger, blobs = MemoryLedger(disk), MemoryBlobs(disk, quota_bytes=quota_bytes)
        self.all[name] = Life(name, signer, disk, ledger, blobs, quartz=quartz)

    def start(self, name: str) -> None:
        life = self.all[name]
        life.ledger.hook = life.fuse = None
        if life.scope is None:
            life.scope = trio.CancelScope()
            self._nursery.start_soon(self._live, life, life.scope)

    async def _live(self, life: Life, scope: trio.CancelScope) -> None:
        with scope:
            life.task = trio.lowlevel.current_task()
            while True:
                life.lives += 1
                up_s = Random(f"{self._seed}/{life.name}/{life.lives}/uptime").uniform(
                    0.0, UPTIME_MOST_S
                )
                life.skew = Skew(life.quartz.rate, up_s)
                KEPT.set(life.skew)
                try:
                    life.node = await self._build(life)
                    await life.node.run()
                except* P2pError as group:
                    self._judge(life, group)
                self._crash_disk(life)
                await trio.sleep(RESTART_S)

    def _judge(self, life: Life, group: BaseExceptionGroup[P2pError]) -> None:
        """A node may end by what befell it, and by nothing else."""
        for error in leaves(group):
            if not (life.copied and "copied identity" in str(error)):
                self._watcher.failed(life.name, str(error))

    def kill(self, name: str, *, silent: bool) -> None:
        life = self.all[name]
        if life.scope is not None:
            if silent:
                life.power_off()
            life.scope.cancel()
            life.scope = life.task = life.node = None
            self._crash_disk(life, power=silent)

    def leave(self, name: str) -> None:
        life = self.all[name]
        if life.scope is not None:
            self._nursery.start_soon(self._depart, life, life.scope)

    async def _depart(self, life: Life, scope: trio.CancelScope) -> None:
        KEPT.set(life.skew)
        if life.node is not None:
            await life.node.leave()
        if life.scope is scope:  # nothing else has ended it meanwhile
            self.kill(life.name, silent=False)

    def _crash_disk(self, life: Life, *, power: bool = False) -> None:
        dice = Random(f"{self._seed}/{life.name}/{life.lives}/disk")
        life.ledger.crash(dice)
        life.blobs.crash(dice, power=power)

    def kill_in_commit(self, name: str, commits: int, moment: Moment) -> None:
        life, left = self.all[name], commits

        def count(at: Moment, _: object) -> None:
            nonlocal left
            left -= at is moment
            if not left:
                life.ledger.hook = None
                self.kill(name, silent=True)

        life.ledger.hook = count

    def kill_in_step(self, name: str, steps: int) -> None:
        life = self.all[name]
        life.fuse = Fuse(self, life, steps)
        trio.lowlevel.add_instrument(life.fuse)

    def disk(self, name: str) -> Disk:
        return self.all[name].disk

    def set_clock(self, name: str, offset_s: float) -> None:
        self.all[name].jump_s = offset_s

    def back_up(self, name: str) -> None:
        life = self.all[name]
        life.backup = life.ledger.copy(life.disk), life.blobs.copy(life.disk)

    def restore(self, fault: Restore) -> None:
        self.kill(fault.name, silent=True)
        life = self.all[fault.name]
        assert life.backup is not None  # a fault begins before it strikes
        life.ledger, life.blobs = life.backup
        life.copied = True
        self._watcher.restored(life, calm=fault.calm)

    def start_twin(self, fault: Twin) -> None:
        life, name = self.all[fault.name], fault.name + TWIN
        life.copied = True
        disk = Disk(Random(f"{self._seed}/{name}/disk"))
        twin = Life(name, life.signer, disk, MemoryLedger(disk), MemoryBlobs(disk), copied=True)
        twin.quartz = life.quartz
        if not fault.empty:
            twin.ledger, twin.blobs = life.ledger.copy(disk), life.blobs.copy(disk)
        self.all[name] = twin
        self._watcher.doubled(life)
        self.start(name)

    def end_twin(self, name: str) -> None:
        self.kill(name + TWIN, silent=True)
        del self.all[name + TWIN]


class Fuse(trio.abc.Instrument):
    """Counts the steps of a node's tasks, and kills it after the last one."""

    def __init__(self, lives: Lives, life: Life, steps: int) -> None:
        self._lives = lives
        self._life = life
        self._root = life.task
        self._left = steps

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._life.fuse is not self or self._life.task is not self._root:
            trio.lowlevel.remove_instrument(self)  # its time is over, or the node died otherwise
        elif self._is_inside(task):
            self._left -= 1
            if not self._left:
                trio.lowlevel.remove_instrument(self)
                self._lives.kill(self._life.name, silent=True)

    def _is_inside(self, task: trio.lowlevel.Task) -> bool:
        here: trio.lowlevel.Task | None = task
        while here is not None and here is not self._root:
            here = here.parent_nursery.parent_task if here.parent_nursery else None
        return here is self._root


def leaves(group: BaseExceptionGroup[P2pError]) -> Iterator[P2pError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error
