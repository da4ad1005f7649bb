"""A fleet of real daemons under one attack after the other, with figures: make hostile. Seconds, bytes.

Each attack is a process of its own that turns on one validator. Fails if a daemon dies, if nothing is
certified while one attack lasts, or if memory or log grow beyond their bounds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from tests.end_to_end.fleet_bench import Bench, build_digits, found, log_bytes, open_bench
from tests.end_to_end.processes import cpu_s, resident_bytes
from tests.hostile.attack import ATTACKS

VALIDATORS = ("validator1", "validator2", "validator3")
VICTIM = "validator1"
LOG_MOST = 2**20
GROWTH_MOST_MB = 64.0
"""Under one attack: forty links of rogues, and what all unfinished messages may hold.

Histories fill up meanwhile, which is some 10 MB a minute until they are full.
"""


@dataclass(frozen=True, slots=True)
class Row:
    attack: str
    decisions: int
    """Certified while it lasted."""
    cpu_share: float
    """Of one core, by the victim's daemon alone."""
    resident_mb: float
    growth_mb: float
    """Of the victim's memory, while it lasted."""
    log_bytes: int
    lag_ms: float
    """The latest that the victim's event loop came to a task."""
    links: int


@dataclass(frozen=True, slots=True)
class _Moment:
    height: int
    cpu_s: float
    resident: int
    log: int
    lag_s: float
    links: int


async def target_words(bench: Bench, name: str) -> list[str]:
    """What makes a Target of a node."""
    address = (await bench.answers(name))["node"]["address"]
    height = (await bench.revision(name))["height"]
    scope = bench.founded.setting.scope(height + 1)
    words = [address, scope.network.hex(), scope.term.hex(), scope.experiment]
    return [*words, scope.revision.hex(), str(scope.height)]


def _launch(attack: str, where: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.hostile.attack", attack, *where]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


async def moment(bench: Bench) -> _Moment:
    status = await bench.answers(VICTIM)
    pid = bench.nodes[VICTIM].process.pid
    return _Moment(
        height=status["revisions"][0]["height"],
        cpu_s=cpu_s(pid),
        resident=resident_bytes(pid),
        log=log_bytes(bench.founded, VICTIM),
        lag_s=status["node"]["lag_most_s"],
        links=sum(peer["linked"] for peer in status["peers"]),
    )


async def under(bench: Bench, attack: str, seconds: float) -> Row:
    before, start_s = await moment(bench), trio.current_time()
    where = await target_words(bench, VICTIM)
    if attack == "calm":
        await trio.sleep(seconds)
    else:
        with _launch(attack, [*where, f"{seconds}"]) as process:
            await trio.sleep(seconds * 0.9)
            links = (await moment(bench)).links
            while process.poll() is None:  # noqa: ASYNC110 - a process tells nobody
                await trio.sleep(0.1)
            assert process.returncode == 0, f"the attack {attack} failed itself"
    after, spent_s = await moment(bench), trio.current_time() - start_s
    for name, node in bench.nodes.items():
        assert node.running, f"{name} died under {attack}: {bench.said(name)[-2000:]}"
    return Row(
        attack=attack,
        decisions=after.height - before.height,
        cpu_share=round((after.cpu_s - before.cpu_s) / spent_s, 3),
        resident_mb=round(after.resident / 2**20, 1),
        growth_mb=round((after.resident - before.resident) / 2**20, 1),
        log_bytes=after.log - before.log,
        lag_ms=round(after.lag_s * 1000),
        links=after.links if attack == "calm" else links,
    )


async def play(directory: Path, attacks: list[str], seconds: float) -> list[Row]:
    built = await build_digits(directory)
    founded = found(directory, built, validators=VALIDATORS, quorum=2, deadline_s=8.0)
    rows = []
    async with open_bench(founded) as bench:
        await bench.start_seed()
        for name in VALIDATORS:
            bench.start(name, "validator")
        for name in ("trainer1", "trainer2"):
            bench.start(name, "trainer")
        await bench.promotes(VICTIM, 2)
        for attack in ("calm", *attacks):
            rows.append(await under(bench, attack, seconds))
            show(rows[-1])
    return rows


def show(row: Row) -> None:
    cells = [f"{key} {value}" for key, value in asdict(row).items()]
    print("  ".join(cells), flush=True)  # noqa: T201 - what it is for


def failures(rows: list[Row]) -> list[str]:
    found = []
    for row in rows:
        if row.decisions < 1:
            found.append(f"{row.attack}: nothing was certified")
        if row.log_bytes > LOG_MOST:
            found.append(f"{row.attack}: {row.log_bytes} bytes of log")
        if row.growth_mb > GROWTH_MOST_MB:
            found.append(f"{row.attack}: memory grew by {row.growth_mb:.0f} MB")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each attack")
    parser.add_argument("--json", action="store_true", help="a last line with all rows")
    parser.add_argument("attacks", nargs="*", help=f"of {', '.join(ATTACKS)}; all if none is named")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        rows = trio.run(play, Path(directory), given.attacks or list(ATTACKS), given.seconds)
    if given.json:
        print(json.dumps({"lane": "hostile", "rows": [asdict(row) for row in rows]}))  # noqa: T201
    sys.exit("\n".join(failures(rows)) or 0)


if __name__ == "__main__":
    main()
