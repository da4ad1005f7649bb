"""The reported faults whose length or size is stated, once as stated, on real daemons: make cases. Seconds.

Each case is a process of its own that prints one line: its name, ok or FAILED, and its figures; a figure that
is not what it should be has a mark before it. Those that mostly wait run side by side; those
that keep the machine busy run one after the other meanwhile. Exit status 1 if one failed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import trio

from p2pd.lifeline import tied
from tests.faults.stated import crowds, fleets, restarting, starving, transfers, workloads
from tests.faults.stated.seen import Seen

LIMIT_S = 780.0
"""Of the whole lane."""
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Case:
    what: str
    play: Callable[[Path], Seen]
    waits: bool = False
    """It takes long and little of the machine."""


def real(scene: Callable[[Path], Awaitable[Seen]]) -> Callable[[Path], Seen]:
    return lambda directory: trio.run(scene, directory)


CASES = {
    "A1": Case("60 s without any seed", real(fleets.joining), waits=True),
    "D1": Case("all trainers killed, new ones 60 s later", real(fleets.deaths), waits=True),
    "D7": Case("windows of 0.2 s and 5 s, 60 of them", real(fleets.paces), waits=True),
    "J4": Case("a seed down for 10 min, 6,000 callers", real(crowds.chatter), waits=True),
    "D10": Case("leases of 3 and 65 samples", real(fleets.small_leases)),
    "F5": Case("workers of nodes that end", real(fleets.orphans)),
    "F1": Case("forks beside threads, 100 leases", workloads.forking),
    "G2": Case("all nodes killed after window 10", real(restarting.everything)),
    "F7": Case("bad workloads, on a /dev/shm of 1 MB", workloads.naughty, waits=True),
    "F8": Case("more memory than a control group has", starving.starving),
    "C3": Case("a provider of 5 kB/s", transfers.slow_provider),
    "C1": Case("a provider of 100 MB killed at 50 %", transfers.death),
    "B1": Case("1 GiB to a reader of 2 MB/s", transfers.slow_reading),
    "I5": Case("1,000,000 ids of nothing", real(crowds.strange_ids)),
    "F6": Case("500 MB under 20 peers", real(crowds.large_model)),
    "B6": Case("100,000 requests", transfers.requests),
}


def play(name: str) -> int:
    """In this process; everything that it makes goes with it."""
    with tempfile.TemporaryDirectory() as directory:
        seen = CASES[name].play(Path(directory))
    sys.stdout.write(f"{line_of(name, seen)}\n")
    return 1 if seen.wrong else 0


def line_of(name: str, seen: Seen) -> str:
    figures = [f"!! {figure}" if figure in seen.wrong else figure for figure in seen.figures]
    return f"{name:4}{'FAILED' if seen.wrong else 'ok':7}{'; '.join(figures)}"


class Lane:
    def __init__(self, directory: Path) -> None:
        self.failed: list[str] = []
        self._directory = directory

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for name, case in CASES.items():
                if case.waits:
                    nursery.start_soon(self._play, name)
            for name, case in CASES.items():
                if not case.waits:
                    await self._play(name)

    async def _play(self, name: str) -> None:
        """A process in a session of its own; none that it started outlives it."""
        place = self._directory / name
        place.mkdir()
        output, start_s = self._directory / f"{name}.txt", trio.current_time()
        process = _start(name, place, output)
        try:
            while process.poll() is None:  # noqa: ASYNC110 - a process tells nobody
                await trio.sleep(POLL_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if code != 0:
            self.failed.append(name)
        spent_s = trio.current_time() - start_s
        told = output.read_text(errors="replace").strip()
        line = told.rpartition("\n")[2]
        if not line.startswith(f"{name} "):
            line = f"{told}\n{name:4}FAILED with exit status {code}"
        sys.stdout.write(f"{line} ({spent_s:.0f} s)\n")
        sys.stdout.flush()


def _start(name: str, place: Path, output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as file:
        return subprocess.Popen(
            tied("tests.faults.lane", "--only", name),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(place)},
        )


async def _in_time(lane: Lane) -> None:
    with trio.move_on_after(LIMIT_S) as limit:
        await lane.run()
    if limit.cancelled_caught:
        lane.failed.append(f"not over within {LIMIT_S:g} s")


def play_all() -> int:
    with tempfile.TemporaryDirectory(prefix="cases-") as directory:
        lane = Lane(Path(directory))
        trio.run(_in_time, lane)
    sys.stdout.write(f"failed: {', '.join(lane.failed)}\n" if lane.failed else "")
    return 1 if lane.failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.lane", description=__doc__)
    names = ", ".join(f"{name}: {case.what}" for name, case in CASES.items()).replace("%", "%%")
    parser.add_argument("--only", choices=CASES, metavar="NAME", help=names)
    given = parser.parse_args()
    return play_all() if given.only is None else play(given.only)


if __name__ == "__main__":
    sys.exit(main())
