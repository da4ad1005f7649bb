"""One real node: its configuration put together with sockets, files and processes, until a signal ends it."""

import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import trio

from p2pd.config.loading import Override
from p2pd.config.names import parse_seed
from p2pd.core.health import Health
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import ArtifactId, PeerId, peer_id, short
from p2pd.daemon.absent import NoMath, NoWorker
from p2pd.daemon.checked import CheckedWorker
from p2pd.daemon.data import sources_of
from p2pd.daemon.duty import Duty
from p2pd.daemon.folding import Folding
from p2pd.daemon.given import Given, gather
from p2pd.daemon.governing import take_record
from p2pd.daemon.importing import import_head
from p2pd.daemon.logs import start_logging
from p2pd.daemon.opening import open_ledger
from p2pd.daemon.rates import Rates
from p2pd.daemon.scripts import Scripts
from p2pd.daemon.settings import load_node
from p2pd.daemon.snapshots import Snapshots, WorkerSight
from p2pd.daemon.watchdog import Watchdog
from p2pd.daemon.worker_lines import WorkerLines
from p2pd.daemon.working import Shown, attached_worker, own_worker
from p2pd.errors import (
    OtherWorkloadError,
    P2pError,
    UnreachableError,
    UsageError,
    WorkloadError,
)
from p2pd.io.attached import AttachedWorker
from p2pd.io.blobs import FileBlobStore
from p2pd.io.control import Upgrade, serve_control
from p2pd.io.lock import DataDirectory
from p2pd.io.math import MathConfig, MathProcess
from p2pd.io.overlay import Identity, QuicTransport
from p2pd.io.shelved import shelved
from p2pd.node.data_files import OFFER
from p2pd.node.discovery import Seed
from p2pd.node.node import Node, Parts
from p2pd.node.patience import Room
from p2pd.node.supervision import Supervisor, bug_in
from p2pd.ports import Math
from p2pd.status.snapshot import to_json

log = logging.getLogger("p2pd.daemon")
workload_log = logging.getLogger("p2pd.workload")

LEAVE_S = 9.0
"""A clean end may take so long; then the process ends all the same: within ten seconds."""
PUT_OFF_S = 2.0
"""Of that, for storing what could wait."""
DRIVEN = (
    "this node trains in a process of its own: set worker.attached = true for a script to do it"
)
CALLS = "status, pause, resume, drive, governance"
"""What the control socket takes."""
OK, FAILED, USAGE = 0, 1, 2
"""Exit statuses."""


@dataclass(slots=True)
class Departure:
    """How a signal ends this process: its node says so first, if it runs by then."""

    life: trio.CancelScope = field(default_factory=trio.CancelScope)
    begun: trio.Event = field(default_factory=trio.Event)
    node: Node | None = None

    async def run(self) -> None:
        await self.begun.wait()
        if self.node is not None:
            await self.node.leave()
        self.life.cancel()


def run(role: str | None, config: Path | None, overrides: tuple[Override, ...]) -> int:
    """Runs a node in the foreground until SIGTERM or SIGINT. The exit status of the process.

    Raises:
        UsageError: the configuration is wrong; nothing was bound or written.
        P2pError: what ended the node.
    """
    if role is not None:
        overrides = (*overrides, Override("--role", "node", "role", role))
    given = gather(load_node(config, overrides))
    with DataDirectory(given.config.node.data_dir) as directory:
        folding = start_logging(directory.log, given.config.log)
        return trio.run(_serve, given, directory, folding)


async def _serve(given: Given, directory: DataDirectory, folding: Folding) -> int:
    failures: list[P2pError] = []
    try:
        async with trio.open_nursery() as nursery:
            departure = Departure()
            nursery.start_soon(folding.run)
            nursery.start_soon(departure.run)
            await nursery.start(_heed_signals, departure)
            with departure.life:
                await _run_node(given, directory, departure)
            nursery.cancel_scope.cancel()
    except* P2pError as group:
        failures += _leaves(group)
    if not failures:
        log.info("left")
        return OK
    for failure in failures:
        log.error("%s", failure, exc_info=bug_in(failure))
    return USAGE if any(isinstance(failure, UsageError) for failure in failures) else FAILED


def _leaves(group: BaseExceptionGroup[P2pError]) -> list[P2pError]:
    found: list[P2pError] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def _heed_signals(departure: Departure, *, task_status: trio.TaskStatus[None]) -> None:
    """With the first signal the node departs, cleanly; a second one ends the process at once, and so does time.

    At once means: the kernel and the ends of their pipes see to the subprocesses.
    """
    patience = trio.CancelScope()
    with patience, trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if departure.begun.is_set():
                os._exit(128 + number)
            log.info("leaving on %s", signal.Signals(number).name)
            departure.begun.set()
            patience.deadline = trio.current_time() + LEAVE_S
    if patience.cancelled_caught:
        log.error("not ready to leave after %g s: ending all the same", LEAVE_S)
        os._exit(FAILED)


async def _run_node(given: Given, directory: DataDirectory, departure: Departure) -> None:
    config = given.config
    async with AsyncExitStack() as stack:
        opened = open_ledger(directory, given.genesis.genesis)
        signer, ledger = await stack.enter_async_context(opened)
        dice, health = Random(SystemRandom().getrandbits(64)), Health()
        lines = WorkerLines(workload_log.info, trio.current_time)
        supervision = Supervisor(health, dice)
        store = FileBlobStore(
            directory.blobs,
            config.store,
            on_damage=_damaged,
            on_room=Room(health, "store").say,
        )
        blobs = shelved(store, config.data.serve)
        math = await _math(stack, given, store)
        attached = attached_worker(given, directory, store)
        worker: CheckedWorker | NoWorker
        if attached is not None and given.revision is not None:
            worker = CheckedWorker(attached, given.revision.revision, health)
        else:
            worker = await stack.enter_async_context(
                own_worker(given, directory, store, supervision, health, lines)
            )
        transport = QuicTransport(
            config.overlay,
            Identity(signer.seed),
            lambda address: _hello(given, address),
            frozenset(peer_id(seat.key) for seat in given.genesis.genesis.validators),
        )
        parts = Parts(
            signer=signer,
            transport=transport,
            ledger=ledger,
            blobs=blobs,
            math=math,
            worker=worker,
            dice=dice,
            now_ms=lambda: time.time_ns() // 1_000_000,
            data_quota_bytes=config.data.quota_bytes,
            data_sources=sources_of(config.data, given.revision),
            has_data=config.data.serve is not None,
            share=config.trainer.share,
            keep_every=config.store.keep_every,
            health=health,
            supervision=supervision,
        )
        seeds = [Seed(seed.address, seed.peer) for seed in map(parse_seed, config.network.seeds)]
        node = Node(parts, given.genesis.genesis, given.plugin, seeds)
        if given.revision is not None:
            node.add(given.revision)
            if config.experiment.record is not None:
                await import_head(config.experiment.record, given.revision.revision, store)
        departure.node = node
        shown = Shown(lines, worker.devices)
        await _serve_node(given, directory, node, transport, shown, attached)


async def _serve_node(
    given: Given,
    directory: DataDirectory,
    node: Node,
    transport: QuicTransport,
    shown: Shown,
    attached: AttachedWorker | None,
) -> None:
    started_s = trio.current_time()
    rates = Rates(transport.counters)
    watchdog = Watchdog(given.config.log.stall_s, node.health)
    sight = WorkerSight(shown.lines.last, shown.devices, shown.lines.doing)
    snapshots = Snapshots(node, given.config.node.name, rates, watchdog.lag, sight)
    duty = _duty(given, directory, node, attached)
    scripts = _scripts(given, node, attached)

    async def answer(request: dict[str, Any]) -> dict[str, Any] | Upgrade:
        match request.get("call"):
            case "status":
                return to_json(await snapshots.take(trio.current_time() - started_s))
            case "pause":
                return duty.pause()
            case "resume":
                return duty.resume()
            case "drive" if scripts is not None:
                return scripts.drive(request)
            case "drive":
                raise UsageError(DRIVEN)
            case "governance":
                return await take_record(node, request.get("record"))
            case call:
                raise UsageError(f"unknown call {call!r}; known: {CALLS}")

    async def control() -> None:
        with node.supervision.vital("control"):
            await serve_control(directory.path, answer)

    keep = node.supervision.keep
    await _until_left(
        node,
        partial(_announce, given, transport),
        partial(_must_join, given, node),
        control,
        partial(_check_workload, given, node),
        partial(keep, "duty", duty.run),
        partial(keep, "rates", rates.run),
        partial(keep, "worker lines", shown.lines.run),
        partial(keep, "watchdog", watchdog.run),
    )


async def _announce(given: Given, transport: QuicTransport) -> None:
    await trio.lowlevel.checkpoint()
    log.info(
        "%s %s of network %s listens on %s",
        given.plugin.name,
        short(transport.peer),
        given.genesis.genesis.name,
        transport.address or "no address",
    )
    if given.plugin.name == "validator" and not _has_seat(given, transport.peer):
        log.warning("this key holds no seat in the genesis: the node follows and does not vote")


async def _must_join(given: Given, node: Node) -> None:
    if (join_s := given.config.network.join_s) > 0:
        with trio.move_on_after(join_s):
            await node.joined.wait()
            return
        raise UnreachableError(
            f"nobody was met within {join_s:g} s (network.join_s): look at network.seeds,"
            " and whether UDP comes through"
        )


def _duty(
    given: Given, directory: DataDirectory, node: Node, attached: AttachedWorker | None
) -> Duty:
    settings = given.config.trainer
    if attached is None:
        return Duty(directory.path, settings, node)
    duty = Duty(directory.path, settings, node, lambda: attached.resting)
    attached.changed = duty.look
    return duty


def _scripts(given: Given, node: Node, attached: AttachedWorker | None) -> Scripts | None:
    if attached is None:
        return None
    (lane,) = node.lanes.values()
    return Scripts(attached, node.worker, lane, given.config.trainer.share)


async def _check_workload(given: Given, node: Node) -> None:
    """Another workload than the revision's is for a person to replace; a mistake in the right one is shown."""
    if not given.plugin.needs_worker or given.config.worker.attached:
        return
    with node.supervision.vital("workload"):
        try:
            (lane,) = node.lanes.values()
            await lane.worker.info()
        except OtherWorkloadError:
            raise
        except WorkloadError as error:
            log.warning("the workload cannot be used yet: %s", error)


async def _until_left(node: Node, *more: Callable[[], Awaitable[None]]) -> None:
    try:
        await node.run(*more)
    finally:
        with trio.move_on_after(PUT_OFF_S, shield=True):  # a full disk would take for ever
            await node.store()


def _has_seat(given: Given, peer: PeerId) -> bool:
    return any(peer_id(seat.key) == peer for seat in given.genesis.genesis.validators)


def _hello(given: Given, address: str) -> Hello:
    network = given.genesis.genesis.network
    offers = (*given.plugin.offers, OFFER) if given.config.data.serve else given.plugin.offers
    return Hello(PROTOCOL_VERSION, network, offers, address, "p2pd/0.1.0")


def _damaged(artifact: ArtifactId, what: str) -> None:
    log.error("artifact %s is damaged: %s", short(artifact), what)


async def _math(stack: AsyncExitStack, given: Given, blobs: FileBlobStore) -> Math:
    """A role that merges has its machine tested first; one that only makes heads of steps checks each by its id."""
    signed = given.revision
    rebuilds = signed is not None and signed.revision.head_codec != "f32"
    if not given.plugin.needs_math and not (rebuilds and given.plugin.needs_worker):
        return NoMath()
    math = await stack.enter_async_context(MathProcess.open(blobs, MathConfig()))
    if given.plugin.needs_math:
        await math.self_test()
    return math
