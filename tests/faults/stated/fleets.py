"""Cases of joining, windows and workers, on fleets of real daemons. Seconds."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from p2pd.core.decision import Decision, Outcome
from p2pd.core.work import Verdict
from tests.end_to_end.fleet_bench import (
    SAMPLES,
    Bench,
    Status,
    decisions,
    found,
    lease_of,
    open_bench,
    until,
)
from tests.end_to_end.processes import Process, alive, children_of, cpu_s, stopped, worker_of
from tests.faults.scene import cohort, promoted
from tests.faults.stated.pace import BATCH, PACE
from tests.faults.stated.seen import Seen, all_run, light, paced, traces

VALIDATORS = ("validator1", "validator2", "validator3")
TRAINERS = ("trainer1", "trainer2", "trainer3")
AWAY_S = 60.0
"""No seed, or no trainer, for so long."""
JOIN_MOST_S = 15.0
GONE_MOST_S = 10.0
IDLE_CPU_MOST = 0.05
"""Of one core, by a validator's daemon that has nothing to do."""


@contextmanager
def places(count: int) -> Iterator[list[socket.socket]]:
    """UDP ports at which nobody answers; a node can have the place of one that is closed."""
    taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        yield taken
    finally:
        for one in taken:
            one.close()


def address_of(place: socket.socket) -> str:
    return f"127.0.0.1:{place.getsockname()[1]}"


async def _is_linked(bench: Bench, name: str) -> bool:
    status = await bench.answers(name)
    return any(peer["linked"] for peer in status["peers"])


async def joining(directory: Path) -> Seen:
    """A1: three seeds that are down for a minute, then one is there."""
    seen = Seen()
    founded = found(directory, light(directory))
    async with open_bench(founded) as bench:
        with places(3) as seeds:
            addresses = tuple(address_of(one) for one in seeds)
            seeds[2].close()  # the kernel says that nobody is there; of the others nothing is heard
            bench.start("trainer1", "trainer", seeds=addresses)
            await bench.answers("trainer1")
            await trio.sleep(AWAY_S)
            said = bench.said("trainer1").splitlines()
            warnings = [
                sum("again within" in line and at in line for line in said) for at in addresses
            ]
            seen.note(f"{warnings} lines on the seeds in {AWAY_S:g} s", right=warnings == [1, 1, 1])
            bench.listen = addresses[2]
            bench.start("seed", "bootstrap", seeds=())
            await bench.answers("seed")
            start_s = trio.current_time()
            await until("it has joined", lambda: _is_linked(bench, "trainer1"))
            taken_s = trio.current_time() - start_s
            seen.note(
                f"joined {taken_s:.1f} s after the seed answered", right=taken_s <= JOIN_MOST_S
            )
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench))
    return seen


async def deaths(directory: Path) -> Seen:
    """D1: kill -9 of all trainers in the middle of a window, new ones a minute later."""
    seen = Seen()
    built = light(directory)
    founded = found(directory, built, validators=VALIDATORS, quorum=2, deadline_s=8.0)
    async with open_bench(founded) as bench:
        await bench.start_seed()
        for name in VALIDATORS:
            bench.start(name, "validator")
        for name in TRAINERS:
            bench.start(name, "trainer")
        await bench.promotes("validator1", 3)
        before = await _kill_in_a_window(bench)
        await trio.sleep(AWAY_S / 2)
        pids = [bench.nodes[name].process.pid for name in VALIDATORS]
        start_s, used_s = trio.current_time(), sum(map(cpu_s, pids))
        await trio.sleep(AWAY_S / 2)
        spent_s = (trio.current_time() - start_s) * len(pids)
        share = (sum(map(cpu_s, pids)) - used_s) / spent_s
        seen.note(
            f"an idle validator takes {100 * share:.1f} % of a core", right=share < IDLE_CPU_MOST
        )
        heads, start_s = (await bench.revision("validator1"))["heads"], trio.current_time()
        for name in ("trainer4", "trainer5", "trainer6"):
            bench.start(name, "trainer")
        await bench.promotes("validator1", heads + 1)
        taken_s = trio.current_time() - start_s
        seen.note(f"newcomers' first head {taken_s:.1f} s after their start", right=taken_s < 60.0)
        seen.note(
            f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench, *TRAINERS)
        )
        newcomers = {founded.peer(f"trainer{n}") for n in (4, 5, 6)}
    chain = decisions(founded, "validator1")
    closed, last = chain[before["height"] + 1], promoted(chain)[-1]
    kept = closed.header.outcome is Outcome.EMPTY and closed.head.hex() == before["head"]
    seen.note(
        f"the window was decided {closed.header.outcome.name.lower()}, the head kept", right=kept
    )
    made_by = {candidate.update.signer.hex() for candidate in cohort(last)}
    seen.note(
        f"the new head is of {len(made_by)} newcomers", right=bool(made_by) and made_by <= newcomers
    )
    return seen


async def _kill_in_a_window(bench: Bench) -> Status:
    """All trainers have a lease and are at it; what a validator says of that moment."""
    peers = [bench.founded.peer(name) for name in TRAINERS]
    pids = [bench.nodes[name].process.pid for name in TRAINERS]
    workers = [worker for pid in pids if (worker := worker_of(pid)) is not None]

    async def midway() -> Status | None:
        revision = await bench.revision("validator1")
        leases = [lease_of(revision, peer) for peer in peers]
        at_work = all(lease is not None and lease["state"] == "training" for lease in leases)
        return revision if at_work else None

    with stopped(*workers):
        revision = await until("a window without an update", midway)
        for name in TRAINERS:
            bench.kill(name)
    return revision


async def paces(directory: Path) -> Seen:
    """D7: trainers that take 0.2 s and 5 s, a model with BatchNorm, sixty windows."""
    heads = 60
    seen = Seen()
    built = await paced(directory, shard_samples=16)
    founded = found(
        directory, built, validators=VALIDATORS, quorum=2, lease_shards=1, deadline_s=15.0
    )
    async with open_bench(founded) as bench:
        await bench.start_seed()
        for name in VALIDATORS:
            bench.start(name, "validator")
        for name, pace_s in zip(TRAINERS, ("0.2", "0.2", "5"), strict=True):
            bench.start(name, "trainer", environment={PACE: pace_s})
        start_s = trio.current_time()

        async def enough() -> bool:
            return bool((await bench.revision("validator1"))["heads"] >= heads)

        await until(f"{heads} heads", enough, 600.0, 2.0)
        seen.note(f"{heads} heads in {trio.current_time() - start_s:.0f} s", right=True)
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench))
        slow = bench.founded.peer("trainer3")
    chains = [decisions(founded, name) for name in VALIDATORS]
    _compare(seen, chains, slow)
    return seen


def _compare(seen: Seen, chains: list[list[Decision]], slow: str) -> None:
    """Each window's inputs are in what was certified, the same on all validators, each once."""
    chain = max(chains, key=len)
    same = all([d.id for d in one] == [d.id for d in chain[: len(one)]] for one in chains)
    made = promoted(chain)
    inputs = [[c.update for c in cohort(d) if c.verdict is Verdict.ACCEPTED] for d in made]
    once = all(one and len({update.id for update in one}) == len(one) for one in inputs)
    seen.note(f"{len(made)} certificates list {sum(map(len, inputs))} inputs", right=same and once)
    slow_ones = sum(update.signer.hex() == slow for one in inputs for update in one)
    seen.note(f"{slow_ones} of the slow one", right=slow_ones > 0)
    punished = [row for row in chain[-1].state.standing if row.quarantined_until]
    seen.note(f"{len(punished)} in quarantine", right=not punished)


async def small_leases(directory: Path) -> Seen:
    """D10: leases of 3 and of 65 samples, batches of 32, two trainers."""
    seen = Seen()
    for samples, steps in ((3, 1), (65, 3)):
        place = directory / str(samples)
        place.mkdir()
        await _lease_of(seen, place, samples, steps)
    return seen


async def _lease_of(seen: Seen, directory: Path, samples: int, steps: int) -> None:
    built = await paced(directory, shard_samples=samples)
    founded = found(directory, built, lease_shards=1, deadline_s=30.0)
    async with open_bench(founded) as bench:
        await bench.start_seed("validator1", "validator")
        for name in ("trainer1", "trainer2"):
            bench.start(name, "trainer")
        await bench.promotes("validator1", 2)  # the first one waits for torch
        start_s = trio.current_time()
        await bench.promotes("validator1", 4)
        taken_s = (trio.current_time() - start_s) / 2
        seen.note(f"{samples} samples: {taken_s:.1f} s a window", right=taken_s < GONE_MOST_S)
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench))
    updates = [c for d in promoted(decisions(founded, "validator1")) for c in cohort(d)]
    accepted = all(c.verdict is Verdict.ACCEPTED for c in updates)
    taken = [(c.update.content.samples, c.update.content.steps) for c in updates]
    rest = SAMPLES % samples  # the last microshard is short, and is dealt when its turn comes
    known = {(samples, steps), (rest, -(-rest // BATCH))}
    right = accepted and (samples, steps) in taken and set(taken) <= known
    short = f", or of the last {rest} samples" if rest else ""
    seen.note(f"{len(taken)} updates of {steps} steps{short}", right=right)


async def orphans(directory: Path) -> Seen:
    """F5: kill -9 of a daemon during a step, started again at once; then SIGTERM during a step."""
    seen = Seen()
    built = await paced(directory, shard_samples=16)
    founded = found(directory, built, lease_shards=1, deadline_s=120.0)
    async with open_bench(founded) as bench:
        await bench.start_seed("validator1", "validator")
        with places(1) as (place,):
            bench.listen = address_of(place)
        slow = {PACE: "100"}
        bench.start("trainer1", "trainer", environment=slow)
        orphaned = await _at_a_step(bench)
        os.kill(bench.nodes["trainer1"].process.pid, signal.SIGKILL)
        start_s = trio.current_time()
        bench.nodes["trainer1"].process.wait()
        bench.start("trainer1", "trainer", environment=slow)
        await _no_longer_there(seen, "kill -9", orphaned, start_s)
        again = await _at_a_step(bench)
        same = (await bench.answers("trainer1"))["node"]["address"] == bench.listen
        seen.note("started again at once on its port", right=same)
        bench.nodes["trainer1"].process.terminate()
        start_s = trio.current_time()
        code = await bench.ended("trainer1", GONE_MOST_S)
        await _no_longer_there(seen, f"SIGTERM (exit status {code})", again, start_s)
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and code == 0)
        leases = (await bench.revision("validator1"))["leases"]
        seen.note(f"{len(leases)} lease", right=len(leases) <= 1)
    return seen


async def _at_a_step(bench: Bench) -> list[Process]:
    """The subprocesses of a trainer whose worker is in the middle of a step."""

    pid = bench.nodes["trainer1"].process.pid

    async def training() -> Process | None:
        """A trainer that has just started says that it trains while its worker is still to come."""
        own = (await bench.revision("trainer1"))["training"]
        trains = own is not None and own["samples"] > 0 and own["stage"].startswith("training")
        return worker_of(pid) if trains else None

    worker = await until("a step is under way", training)
    return [*children_of(pid), worker]


async def _no_longer_there(seen: Seen, what: str, found: list[Process], start_s: float) -> None:
    with trio.move_on_after(GONE_MOST_S):
        while any(alive(process) for process in found):  # noqa: ASYNC110 - processes tell nobody
            await trio.sleep(0.05)
    taken_s = trio.current_time() - start_s
    left = sum(alive(process) for process in found)
    seen.note(
        f"{what}: {left} of {len(found)} left after {taken_s:.1f} s",
        right=left == 0 and bool(found),
    )
