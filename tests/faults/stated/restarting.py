"""Cases of restarts, on fleets of real daemons that train the digits."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import trio

from p2pd.core.decision import Decision, Outcome
from p2pd.core.work import MILLION
from p2pd.io.ledger import SqliteLedger
from p2pd.node.chronicle import Chronicle
from tests.end_to_end.fleet_bench import (
    SHARD_SAMPLES,
    Bench,
    Founded,
    build_revision,
    decisions,
    found,
    open_bench,
)
from tests.faults.stated.seen import Seen, traces

STOPPED, ENDED = 10, 15
"""Heads."""
NODES = {"validator1": "validator", "trainer1": "trainer", "trainer2": "trainer"}
LOSS_APART_MOST = 0.01
LEASE_SHARDS = 15
CONFIG = json.dumps({"batch": LEASE_SHARDS * SHARD_SAMPLES, "lr": 0.2})
"""A lease is one step, so that its shuffling, which follows from signed durations, makes no difference; what the
optimizers keep makes all the more."""


async def everything(directory: Path) -> Seen:
    """G2: kill -9 of all nodes after window 10, and windows 11 to 15 beside a run that was not disturbed."""
    seen = Seen()
    (directory / "built").mkdir()
    built = await build_revision(directory / "built", "p2pd.workloads.digits", config=CONFIG)
    schedule = replace(built.revision.schedule, end_heads=ENDED)
    built = replace(built, revision=replace(built.revision, schedule=schedule))
    steady = directory / "steady"
    steady.mkdir()
    founded = found(steady, built, lease_shards=LEASE_SHARDS)
    for name in NODES:
        founded.peer(name)  # makes its key
    shutil.copytree(steady, directory / "stopped")
    losses = {}
    for kind, place in (
        ("steady", founded),
        ("stopped", Founded(directory / "stopped", founded.setting)),
    ):
        async with open_bench(place) as bench:
            await _start(bench)
            if kind == "stopped":
                await bench.promotes("validator1", STOPPED)
                for name in NODES:
                    bench.kill(name)
                await _start(bench)
            await bench.promotes("validator1", ENDED)
            await trio.sleep(1.0)  # for the report on the last head
            bench.nodes["validator1"].process.terminate()  # and for it to be stored
            await bench.ended("validator1")
            seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0)
        losses[kind] = _losses(place)
    pairs = zip(losses["steady"], losses["stopped"], strict=True)
    apart = max(abs(one - other) / one for one, other in pairs)
    seen.note(
        f"loss of heads 11 to 15 apart by {100 * apart:.2f} %", right=apart <= LOSS_APART_MOST
    )
    return seen


async def _start(bench: Bench) -> None:
    await bench.start_seed("validator1", "validator")
    for name, role in NODES.items():
        if name not in bench.nodes or not bench.nodes[name].running:
            bench.start(name, role)


def _promoted(founded: Founded) -> list[Decision]:
    chain = decisions(founded, "validator1")[1:]
    return [one for one in chain if one.header.outcome is Outcome.PROMOTED]


def _losses(founded: Founded) -> list[float]:
    """Of heads 11 to 15, as the validator measured them."""
    with SqliteLedger(founded.data_dir("validator1") / "ledger.sqlite") as ledger:
        chronicle = Chronicle(ledger, founded.setting)
        reports = [chronicle.reports(one.height)[0].content for one in _promoted(founded)[STOPPED:]]
    return [report.loss / MILLION for report in reports]
