"""Processes of this machine, found, stopped and measured by their numbers. Units: seconds, bytes. Source: proc(5)."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from tests.end_to_end.fleet_bench import until

GONE_S = 10.0
TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine; a later one with the same number is another."""

    pid: int
    started: str
    parent: int
    group: int
    command: str


def processes() -> dict[int, Process]:
    """All that live now, zombies aside. Source: proc(5)."""
    found: dict[int, Process] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if words[0] not in "ZX":
            pid = int(entry.name)
            found[pid] = Process(pid, words[19], int(words[1]), int(words[2]), command)
    return found


def children_of(pid: int) -> list[Process]:
    return [process for process in processes().values() if process.parent == pid]


def worker_of(pid: int) -> Process | None:
    """The process that runs the user's code, below its keeper."""
    keepers = [c for c in children_of(pid) if "p2pd.workload.serve" in c.command]
    return next((worker for keeper in keepers for worker in children_of(keeper.pid)), None)


@contextmanager
def stopped(*found: Process) -> Iterator[None]:
    """Their work does not get done: whatever window is open, or opens next, stays open."""
    for process in found:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in found:
            if alive(process):
                os.kill(process.pid, signal.SIGCONT)


def naming(directory: Path) -> list[Process]:
    """Processes whose command line names something in directory."""
    return [p for p in processes().values() if str(directory) in p.command]


def alive(process: Process) -> bool:
    now = processes().get(process.pid)
    return now is not None and now.started == process.started


async def gone(what: str, found: list[Process], limit_s: float = GONE_S) -> None:
    async def check() -> bool:
        await trio.lowlevel.checkpoint()
        return not any(alive(process) for process in found)

    await until(f"{what} gone: {[p.command for p in found]}", check, limit_s)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")


def cpu_s(pid: int) -> float:
    """What a process itself has used so far. Source: proc(5)."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS_S


def mapped(pid: int) -> str:
    """The files that a process has in its memory: its program and its libraries."""
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""  # it has ended
