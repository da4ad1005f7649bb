"""How busy the devices of trainers are behind long, slow lines: `python -m scripts.utilisation`.

Four trainers, each in a network namespace of its own behind 100 ms and 20 Mbit/s, and three validators at
the hub: real daemons, a model of 1 MB, and a stand-in for a device, which waits instead of computing
(p2pd.workloads.still). First, without lookahead, it measures how long a trainer waits for a decision; then
leases are made so long that deciding takes 30 % of the training, and the devices' own journals are read,
without lookahead and with it. Linux; needs root, or unshare --map-root-user. Five minutes, of waiting
mostly. Units: seconds.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import trio

from p2pd.daemon.local import LocalFleet, Member, revision_of
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    PublishRequest,
    RevisionSettings,
    ScheduleSettings,
    publish,
)
from p2pd.errors import P2pError
from p2pd.io.keys import create_key

TRAINERS, VALIDATORS = 4, 3
RTT_MS, MBIT_S, MEGABYTES = 100, 20, 1.0
DECIDING = 0.3
"""Of the training time."""
LEASE_SHARDS = 8
WARM_UP = 3
"""Leases: trainers join one by one, and processes build their workloads."""
START_S = 120.0
DEADLINE_S = 600.0
POLL_S = 1.0
INTERNET_DATAGRAM_BYTES = 1200
INSIDE = "P2PD_UTILISATION"


@dataclass(frozen=True, slots=True)
class Busy:
    shares: tuple[float, ...]
    """Of each trainer's time."""
    waits_s: tuple[float, ...]
    """Between two leases, of all trainers."""


def measured(journals: Path) -> Busy:
    """After the warm-up, from the begin of a lease to that of the last one."""
    shares: list[float] = []
    waits_s: list[float] = []
    for journal in sorted(journals.iterdir()):
        lines = journal.read_text().splitlines()[WARM_UP:]
        spans = [tuple(map(float, line.split())) for line in lines]
        if len(spans) > 1:
            busy_s = sum(end_s - begin_s for begin_s, end_s in spans[:-1])
            shares.append(busy_s / (spans[-1][0] - spans[0][0]))
            waits_s += [after[0] - before[1] for before, after in itertools.pairwise(spans)]
    return Busy(tuple(shares), tuple(waits_s))


@contextmanager
def wan() -> Iterator[list[dict[str, Any]]]:
    """The leaves: addresses, and the commands that start a process there."""
    command = [sys.executable, "-m", "scripts.wan", "--leaves", str(TRAINERS)]
    command += ["--rtt-ms", str(RTT_MS), "--mbit-s", str(MBIT_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said:
            raise P2pError("the lines do not come up")
        yield json.loads(said)["leaves"]


async def run(
    directory: Path, leaves: Sequence[dict[str, Any]], seconds: float, lookahead: int, windows: int
) -> Busy:
    journals = directory / "journals"
    journals.mkdir()
    members = [
        Member(f"validator{n + 1}", "validator", "10.77.0.1", (), INTERNET_DATAGRAM_BYTES)
        for n in range(VALIDATORS)
    ]
    members += [
        Member(
            f"trainer{n + 1}",
            "trainer",
            leaf["address"],
            tuple(leaf["under"]),
            INTERNET_DATAGRAM_BYTES,
        )
        for n, leaf in enumerate(leaves)
    ]
    record, authority = directory / "still.revision.cbor", create_key(directory / "authority.key")
    fleet = LocalFleet(directory, "utilisation", members, record, START_S)
    config = {"megabytes": MEGABYTES, "seconds": seconds, "journal": str(journals)}
    await publish(
        PublishRequest(
            genesis=fleet.found(authority, VALIDATORS // 2 + 1),
            signers=(authority,),
            out=record,
            revision=RevisionSettings(
                study="bench",
                experiment="utilisation",
                name="r1",
                workload="p2pd.workloads.still",
                config=json.dumps(config),
            ),
            schedule=ScheduleSettings(
                lease_shards=LEASE_SHARDS,
                max_lease_shards=LEASE_SHARDS,
                deadline_s=DEADLINE_S,
                check_limit_s=DEADLINE_S,
                end_heads=WARM_UP + windows,
                lookahead=lookahead,
            ),
            merge=MergeSettings(),
            canary=CanarySettings(),
            log=lambda line: None,
        )
    )
    try:
        await fleet.start()
        await through(fleet, WARM_UP + windows)
    finally:
        await fleet.stop()
    return measured(journals)


async def through(fleet: LocalFleet, heads: int) -> None:
    said = -1
    while said < heads:
        fleet.check_alive()
        judge = await fleet.ask(fleet.nodes[0])
        if judge is not None and revision_of(judge)["heads"] > said:
            said = revision_of(judge)["heads"]
            print(f"  {said} of {heads} heads", file=sys.stderr)
        await trio.sleep(POLL_S)


def figures(seconds: float, lookahead: int, windows: int) -> Busy:
    with wan() as leaves, tempfile.TemporaryDirectory(prefix="p2pd-utilisation-") as directory:
        busy = trio.run(run, Path(directory), leaves, seconds, lookahead, windows)
    shares = ", ".join(f"{share:.1%}" for share in busy.shares)
    print(
        f"lookahead {lookahead}, leases of {seconds:.1f} s: devices busy {mean(busy.shares):.1%} ({shares}), "
        f"{median(busy.waits_s):.2f} s between two leases (median of {len(busy.waits_s)})",
        flush=True,
    )
    return busy


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.utilisation", description=__doc__)
    parser.add_argument("--windows", type=int, default=8, help="that are measured in each run")
    parser.add_argument(
        "--seconds", type=float, help="of a lease; left out, as the decisions ask for"
    )
    parser.add_argument(
        "--lookahead", type=int, choices=(0, 1), help="one run alone; needs --seconds"
    )
    options = parser.parse_args()
    if INSIDE not in os.environ:
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = [
            "unshare",
            *user,
            "--net",
            sys.executable,
            "-m",
            "scripts.utilisation",
            *sys.argv[1:],
        ]
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})
    seconds = options.seconds
    if seconds is None:
        deciding_s = median(figures(5.0, 0, 4).waits_s)
        seconds = deciding_s / DECIDING
        print(f"a trainer waits {deciding_s:.2f} s for a decision: leases of {seconds:.1f} s")
    for lookahead in (0, 1) if options.lookahead is None else (options.lookahead,):
        figures(seconds, lookahead, options.windows)


if __name__ == "__main__":
    main()
