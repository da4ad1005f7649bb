"""A world that writes down what befalls its nodes."""

from dataclasses import dataclass, field
from random import Random

import trio

from p2pd.sim.disk import Disk
from p2pd.sim.faults import Restore, Twin
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.store import Moment


@dataclass
class World:
    network: MemoryNetwork
    log: list[tuple[float, object]] = field(default_factory=list)
    disks: dict[str, Disk] = field(default_factory=dict)

    def note(self, *what: object) -> None:
        self.log.append((trio.current_time(), what))

    def start(self, name: str) -> None:
        self.note("start", name)

    def kill(self, name: str, *, silent: bool) -> None:
        self.note("kill", name, silent)

    def leave(self, name: str) -> None:
        self.note("leave", name)

    def kill_in_commit(self, name: str, commits: int, moment: Moment) -> None:
        self.note("commit", name, commits, moment)

    def kill_in_step(self, name: str, steps: int) -> None:
        self.note("step", name, steps)

    def disk(self, name: str) -> Disk:
        return self.disks.setdefault(name, Disk(Random(0)))

    def set_clock(self, name: str, offset_s: float) -> None:
        self.note("clock", name, offset_s)

    def back_up(self, name: str) -> None:
        self.note("back up", name)

    def restore(self, fault: Restore) -> None:
        self.note("restore", fault.name)

    def start_twin(self, fault: Twin) -> None:
        self.note("twin", fault.name, fault.empty)

    def end_twin(self, name: str) -> None:
        self.note("no twin", name)
