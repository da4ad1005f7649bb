"""kill -9 at random instants of a real fleet: `python -m tests.crash.lane --kills N --seed S`. Seconds.

Seeded are the instants and the victims; what the nodes are at when they die is up to the machine. The
exit status is 1 if anything was lost, said twice, counted twice, or decided two ways.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import trio

from p2pd.cli.reading import open_chain
from p2pd.cli.verify import verify
from p2pd.core.decision import Decision, Outcome, Record
from p2pd.daemon.processes import stop_nodes
from p2pd.io.ledger import SqliteLedger
from p2pd.ports import Table
from p2pd.wire.records import load_record
from tests.crash import standin
from tests.crash.fleet import MEMBERS, VALIDATORS, Figures, Fleet, built_standin
from tests.crash.witness import Witness, counted_twice, forks
from tests.end_to_end.fleet_bench import Built, Founded, build_digits, found, until

PAUSE_MOST_S = 3.0
"""Between two instants; the mean is half of it."""
SETTLED = 0.4
"""Share of the instants before which all nodes came up and decided something: else a slow machine would
do nothing but start."""
SETTLED_S = 20.0
HEADS_AFTER = 3
"""So many heads must be promoted after the last kill."""
RECOVERY_S = 90.0
QUORUM = 2


@dataclass(frozen=True, slots=True)
class Came:
    """What a run came to."""

    figures: Figures
    witness: Witness
    violations: tuple[str, ...]
    heights: int
    heads: int
    recovered_s: float
    """From the last kill until three more heads were promoted."""


async def run(directory: Path, built: Built, kills: int, seed: int) -> Came:
    """No process is left, whatever happens. The environment must have what the workload needs."""
    founded = found(
        directory,
        built,
        validators=VALIDATORS,
        quorum=QUORUM,
        deadline_s=4.0,
        check_limit_s=2.0,
    )
    dice = Random(seed)
    recovered_s = 0.0
    async with trio.open_nursery() as nursery:
        fleet = Fleet(founded, dice, nursery)
        try:
            await fleet.start()
            await _promotes(fleet, 1)
            for _ in range(kills):
                if dice.random() < SETTLED:
                    await _settled(fleet)
                await trio.sleep(dice.uniform(0, PAUSE_MOST_S))
                _strike(fleet, dice)
            start_s = trio.current_time()
            await _promotes(fleet, max(await _heads(fleet), default=0) + HEADS_AFTER)
            recovered_s = trio.current_time() - start_s
        finally:
            with trio.CancelScope(shield=True):
                await stop_nodes(list(fleet.nodes.values()))
        nursery.cancel_scope.cancel()
    return _judge(founded, fleet, recovered_s)


async def _settled(fleet: Fleet) -> None:
    """All nodes are up and have decided a height since; or too much time went by."""

    async def up() -> bool:
        await trio.lowlevel.checkpoint()
        return fleet.ready >= set(MEMBERS)

    with trio.move_on_after(SETTLED_S):
        await until("all nodes are up", up)
        before = await _height(fleet)

        async def higher() -> bool:
            return await _height(fleet) > before

        await until("a height is decided", higher)


async def _height(fleet: Fleet) -> int:
    revisions = [await fleet.revision(name) for name in VALIDATORS]
    return max((revision["height"] for revision in revisions if revision is not None), default=0)


def _strike(fleet: Fleet, dice: Random) -> None:
    """Mostly one node that trains or validates; now and then two, another one, or all."""
    fleet.figures.instants += 1
    running = fleet.running()
    workers = [name for name in running if MEMBERS[name] in ("validator", "trainer")]
    others = [name for name in running if MEMBERS[name] in ("bootstrap", "reducer")]
    kind = dice.random()
    if kind < 0.08:
        fleet.figures.all_at_once += 1
        fleet.kill(running)
    elif kind < 0.2 and others:
        fleet.kill([dice.choice(others)])
    elif kind < 0.35 and len(workers) > 1:
        fleet.kill(dice.sample(workers, 2))
    elif workers:
        fleet.kill([dice.choice(workers)])


async def _heads(fleet: Fleet) -> list[int]:
    revisions = [await fleet.revision(name) for name in VALIDATORS]
    return [revision["heads"] for revision in revisions if revision is not None]


async def _promotes(fleet: Fleet, heads: int) -> None:
    """Until all nodes are up, and the validators have seen so many heads; else it is a violation."""
    with trio.move_on_after(RECOVERY_S):
        while True:
            seen = await _heads(fleet)
            up = fleet.ready >= set(MEMBERS)
            if up and len(seen) == len(VALIDATORS) and min(seen) >= heads:
                return
            await trio.sleep(0.2)
    fleet.violations.append(f"not {heads} heads within {RECOVERY_S:g} s: {await _heads(fleet)}")


def _judge(founded: Founded, fleet: Fleet, recovered_s: float) -> Came:
    """From the ledgers of all nodes, once they have ended."""
    violations = list(fleet.violations)
    chains: dict[str, list[Decision]] = {}
    for name in MEMBERS:
        data_dir = founded.data_dir(name)
        with SqliteLedger(data_dir / "ledger.sqlite") as ledger:
            records = _records(ledger, founded)
            fleet.witness.read(ledger)
        chains[name] = [record.decision for record in records]
        for record in records:
            fleet.witness.certified(record)
        with open_chain(founded.genesis_file, data_dir, "") as chain:
            violations += [
                f"{name}: {f.where}: {f.what}" for f in verify(chain).findings if f.fault
            ]
    longest = max(chains.values(), key=len)
    by_height = {decision.height: decision for decision in longest}
    violations += forks(chains) + counted_twice(longest) + fleet.witness.contradictions()
    violations += [
        f"height {height} was shown with head {head[:10]}"
        for height, head in fleet.heads.items()
        if height in by_height and by_height[height].head.hex() != head
    ]
    promoted = sum(d.header.outcome is Outcome.PROMOTED for d in longest[1:])
    return Came(
        fleet.figures,
        fleet.witness,
        tuple(violations),
        len(longest) - 1,
        promoted,
        recovered_s,
    )


def _records(ledger: SqliteLedger, founded: Founded) -> list[Record]:
    setting, rows = founded.setting, []
    after = b""
    while page := ledger.scan(Table.DECISIONS, setting.revision.id, after=after):
        rows += [load_record(data, setting.genesis.network) for _, data in page]
        after = page[-1][0]
    return rows


def report(came: Came) -> list[str]:
    figures, sources = came.figures, came.witness.sources
    roles = ", ".join(f"{n} {role}" for role, n in sorted(figures.kills.items()))
    return [
        f"instants        {figures.instants}, {figures.all_at_once} of them of all nodes at once",
        f"kills           {figures.kills.total()}: {roles}",
        f"starts          {figures.starts}, of which {figures.answered - len(MEMBERS)} answered before "
        f"they died again; {median(figures.start_s):.2f} s in the median, {max(figures.start_s):.2f} s at most",
        f"ledgers read    {figures.ledgers}, each as the kill left it",
        f"decided         {came.heights} heights, {came.heads} heads promoted",
        f"recovered       {came.recovered_s:.1f} s after the last kill for {HEADS_AFTER} more heads",
        f"votes           {len(came.witness.said)} of validators seen: "
        + ", ".join(f"{n} first {_where(source)}" for source, n in sorted(sources.items())),
        *(f"VIOLATION       {what}" for what in came.violations),
        f"violations      {len(came.violations)}",
    ]


def _where(source: str) -> str:
    return "on the wire" if source == "wire" else f"in {source}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.lane")
    parser.add_argument("--kills", type=int, default=200, help="instants at which nodes are killed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digits", action="store_true", help="train the digits under torch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="p2pd-crash-") as name:
        directory = Path(name)
        if options.digits:
            built = trio.run(build_digits, directory / "built")
        else:
            built = built_standin(directory / "built")
            os.environ.update(standin.install(directory / "installed"))
        came = trio.run(run, directory / "fleet", built, options.kills, options.seed)
    sys.stdout.write("\n".join(report(came)) + "\n")
    return 1 if came.violations else 0


if __name__ == "__main__":
    sys.exit(main())
