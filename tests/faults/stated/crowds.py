"""Cases of many peers, and of one that will not stop, on real daemons. Seconds, bytes; MB are 10**6 bytes."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import trio

from p2pd.core.derive import genesis_decision
from p2pd.core.ids import NetworkId
from p2pd.core.messages import Beacon, Service
from p2pd.core.signed import Scope
from p2pd.core.talk import Objects, dump_talk
from p2pd.lifeline import tied
from p2pd.wire.envelope import dump, seal
from tests.end_to_end.fleet_bench import build_revision, found, log_bytes, open_bench
from tests.end_to_end.processes import resident_bytes
from tests.faults.stated.fleets import address_of, places
from tests.faults.stated.seen import Seen, all_run, light, traces
from tests.hostile.attack import Target, unknown_ids
from tests.hostile.lane import target_words
from tests.hostile.rogue import Rogue, linked

MB = 10**6
MODEL_MB = 500
HEADS = 4
"""Enough for the hundredth part of the event loop's beats to be one at least."""
HEADS_MOST_S = 300.0
PEERS = 20
POLL_S = 0.25
LAG_MOST_S = 0.25
IDS = 1_000_000
IDS_A_MESSAGE = 100
GROWTH_MOST_MB = 20.0
UNSENT_MOST_BYTES = 2**18
SEED_DOWN_S = 600.0
CALLING_S = 60.0
"""The last of them."""
CALLING_MOST_S = 120.0
"""On a slow machine the callers themselves are late."""
CALLS = 6_000
CALLS_OPEN_MOST = 200
TOO_LONG = (2**31).to_bytes(4)
"""The length of a message that nobody takes: it ends the link."""
LOG_MOST_BYTES = 10**6


async def large_model(directory: Path) -> Seen:
    """F6: a validator takes in, hashes and merges 500 MB while 20 peers talk and its status is asked for."""
    seen = Seen()
    built = await build_revision(
        directory, "p2pd.workloads.still", config=json.dumps({"megabytes": MODEL_MB})
    )
    founded = found(directory, built, lease_shards=1, deadline_s=600.0, check_limit_s=600.0)
    async with open_bench(founded) as bench:
        await bench.start_seed("validator1", "validator")
        bench.start("trainer1", "trainer")
        words = await target_words(bench, "validator1")
        with _talkers([*words, genesis_decision(founded.setting).id.hex()]):
            start_s, polls = trio.current_time(), 0
            while (status := await bench.answers("validator1"))["revisions"][0]["heads"] < HEADS:
                polls += 1
                assert trio.current_time() - start_s < HEADS_MOST_S, "the heads take too long"
                await trio.sleep(POLL_S)
            heads_s = trio.current_time() - start_s
        seen.note(f"{HEADS} heads of {MODEL_MB} MB in {heads_s:.0f} s, {polls} polls", right=True)
        peers = sum(peer["linked"] for peer in status["peers"]) - 1  # the trainer talks, too
        seen.note(f"{peers} peers to the end", right=peers >= PEERS)
        p99_s, most_s = status["node"]["lag_p99_s"], status["node"]["lag_most_s"]
        seen.note(f"lag p99 {1000 * p99_s:.0f} ms", right=p99_s < LAG_MOST_S)
        seen.note(f"most {1000 * most_s:.0f} ms", right=True)
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench))
    return seen


@contextmanager
def _talkers(words: list[str]) -> Iterator[None]:
    command = tied("tests.faults.stated.talkers", str(PEERS), *words)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


async def strange_ids(directory: Path) -> Seen:
    """I5: a million ids of experiments, objects and signers that nobody knows, by one peer and then by others."""
    seen = Seen()
    founded = found(directory, light(directory))
    async with open_bench(founded) as bench:
        await bench.start_seed("validator1", "validator")
        target = Target(await target_words(bench, "validator1"))
        pid = bench.nodes["validator1"].process.pid
        await trio.sleep(5.0)  # what a start takes is here
        before = most = resident_bytes(pid)
        said, parted, start_s = 0, [""], trio.current_time()
        while said < IDS:
            with_objects = len(parted) % 2 == 0
            async with _stranger(target, len(parted)) as rogue:
                while rogue.ended is None and said < IDS:
                    said += await _announce(rogue, target, with_objects=with_objects)
                    most = max(most, resident_bytes(pid))
                if rogue.ended is not None:
                    parted.append(rogue.ended.reason_phrase)
        taken_s = trio.current_time() - start_s
        seen.note(f"{said:,} ids in {taken_s:.0f} s", right=True)
        grown = (max(most, resident_bytes(pid)) - before) / MB
        seen.note(f"memory grew by {grown:.1f} MB", right=grown < GROWTH_MOST_MB)
        await _parted(seen, target, parted)
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench))
    return seen


async def _parted(seen: Seen, target: Target, parted: list[str]) -> None:
    """That each was parted from, and why; and that the first one is not taken again."""
    why = sorted({reason.partition(":")[0] for reason in parted[1:]})
    seen.note(
        f"{len(parted) - 1} peers parted from ({', '.join(why)})", right=bool(why) and all(why)
    )
    again = "taken"
    async with _stranger(target, 1) as rogue:
        with trio.move_on_after(5.0):
            again = (await rogue.end()).reason_phrase
    seen.note(f"the first again: {again}", right="for what it did before" in again)


def _stranger(target: Target, number: int) -> AbstractAsyncContextManager[Rogue]:
    return linked(target.address, target.network, f"stranger {number}")


async def _announce(rogue: Rogue, target: Target, *, with_objects: bool) -> int:
    """Says some, as fast as they are taken; how many ids they were."""
    messages, count = [], 0
    for _ in range(20):
        message, ids = unknown_ids(target, IDS_A_MESSAGE)
        messages.append(message)
        count += ids
    if with_objects:
        experiment = f"experiment {target.dice.random()}"
        scope = Scope(target.network, target.term, experiment, target.revision, target.height)
        signed = seal(rogue.signer, "beacon", scope, Beacon(Service.TRAIN))
        messages.append(dump_talk(Objects((dump(signed),))))
    await rogue.say(*messages)
    stream = rogue.quic._streams[0]
    while rogue.ended is None and len(stream.sender._buffer) > UNSENT_MOST_BYTES:
        with trio.move_on_after(1.0):
            await rogue.changed.wait()
    return count


async def chatter(directory: Path) -> Seen:
    """J4: a seed that is down for ten minutes; in the last one, a hundred callers a second that fail."""
    seen = Seen()
    founded = found(directory, light(directory))
    async with open_bench(founded) as bench:
        with places(1) as (silent,):
            bench.start("validator1", "validator", seeds=(address_of(silent),))
            start_s = trio.current_time()
            address = (await bench.answers("validator1"))["node"]["address"]
            await trio.sleep_until(start_s + SEED_DOWN_S - CALLING_S)
            before = log_bytes(founded, "validator1")
            calls_s = await _call(address, founded.setting.genesis.network)
            await bench.answers("validator1")
            spent_s = trio.current_time() - start_s
        written = log_bytes(founded, "validator1") + bench.output("validator1").stat().st_size
        during = log_bytes(founded, "validator1") - before
        seen.note(f"{CALLS} callers failed in {calls_s:.0f} s", right=calls_s < CALLING_MOST_S)
        seen.note(f"{during / 1000:.1f} kB of log meanwhile", right=True)
        figure = f"{written / 1000:.1f} kB written in {spent_s:.0f} s"
        seen.note(figure, right=0 < written < LOG_MOST_BYTES)
        seen.note(f"{traces(bench)} exceptions", right=traces(bench) == 0 and all_run(bench))
    return seen


async def _call(address: str, network: NetworkId) -> float:
    """Ever new callers, one every hundredth second, who fail in turn in three ways; how long it took."""
    start_s = trio.current_time()
    slots = trio.Semaphore(CALLS_OPEN_MOST)

    async def call(number: int) -> None:
        entered = network if number % 3 else NetworkId(bytes(32))
        with trio.move_on_after(5.0):
            async with linked(address, entered, f"caller {number}") as rogue:
                if number % 3 == 1:
                    await rogue.write(TOO_LONG)
                elif number % 3 == 2:
                    rogue.quic.close()
                    await rogue.flush()
                await rogue.end()
        slots.release()

    async with trio.open_nursery() as nursery:
        for number in range(CALLS):
            await trio.sleep_until(start_s + number * CALLING_S / CALLS)
            await slots.acquire()
            nursery.start_soon(call, number)
    return trio.current_time() - start_s
