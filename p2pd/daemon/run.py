"""One real node: its configuration put together with sockets, files and processes, until a signal ends it."""

import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random, SystemRandom

import trio

from p2pd.config.loading import Override
from p2pd.config.names import parse_seed
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.genesis import SignedGenesis
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import ArtifactId, PeerId, short
from p2pd.core.revision import Revision, SignedRevision
from p2pd.daemon.absent import NoMath, NoWorker
from p2pd.daemon.files import read_genesis, read_revision
from p2pd.daemon.logs import start_logging
from p2pd.daemon.publish import head_file_of
from p2pd.daemon.settings import NodeConfig, load_node
from p2pd.daemon.snapshots import snapshot_of
from p2pd.errors import P2pError, UsageError, WorkloadError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.control import serve_control
from p2pd.io.keys import load_or_create_key
from p2pd.io.ledger import SqliteLedger
from p2pd.io.lock import DataDirectory
from p2pd.io.math import MathConfig, MathProcess
from p2pd.io.overlay import Identity, QuicTransport
from p2pd.io.worker import WorkerProcess, WorkerSettings
from p2pd.node.discovery import Seed
from p2pd.node.node import Node, Parts
from p2pd.node.plugins import load_role
from p2pd.ports import Math, RolePlugin, Worker
from p2pd.status.snapshot import to_json

log = logging.getLogger("p2pd.daemon")
workload_log = logging.getLogger("p2pd.workload")

LEAVE_S = 10.0
"""A clean end may take so long; then the process ends all the same."""
OK, FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Given:
    """What the files and packages of this machine say, checked before anything is bound."""

    config: NodeConfig
    plugin: RolePlugin
    genesis: SignedGenesis
    revision: SignedRevision | None


def run(role: str | None, config: Path | None, overrides: tuple[Override, ...]) -> int:
    """Runs a node in the foreground until SIGTERM or SIGINT. The exit status of the process.

    Raises:
        UsageError: the configuration is wrong; nothing was bound or written.
        P2pError: what ended the node.
    """
    if role is not None:
        overrides = (*overrides, Override("--role", "node", "role", role))
    given = _gather(load_node(config, overrides))
    with DataDirectory(given.config.node.data_dir) as directory:
        settings = given.config.node
        start_logging(directory.log, settings.log_level, settings.log_format)
        return trio.run(_serve, given, directory)


def _gather(config: NodeConfig) -> Given:
    plugin = load_role(config.node.role)
    genesis = read_genesis(config.network.genesis)
    revision = None
    if config.experiment.record is not None:
        revision = read_revision(config.experiment.record, genesis)
    elif plugin.needs_worker or plugin.needs_math:
        raise UsageError(f"experiment.record must name the revision that a {plugin.name} works on")
    return Given(config, plugin, genesis, revision)


async def _serve(given: Given, directory: DataDirectory) -> int:
    failures: list[P2pError] = []
    with trio.CancelScope() as scope:
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(_heed_signals, scope)
                await _run_node(given, directory)
        except* P2pError as group:
            failures += _leaves(group)
    if not failures:
        log.info("left")
        return OK
    for failure in failures:
        log.error("%s", failure)
    return FAILED


def _leaves(group: BaseExceptionGroup[P2pError]) -> list[P2pError]:
    found: list[P2pError] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def _heed_signals(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    """The first signal leaves cleanly, a second one at once."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            if scope.cancel_called:
                os._exit(128 + number)
            log.info("leaving on %s", signal.Signals(number).name)
            scope.cancel()


async def _run_node(given: Given, directory: DataDirectory) -> None:
    config = given.config
    signer = load_or_create_key(directory.key)
    async with AsyncExitStack() as stack:
        ledger = stack.enter_context(SqliteLedger(directory.ledger))
        blobs = FileBlobStore(directory.blobs, config.store, on_damage=_damaged)
        math = await _math(stack, given.plugin, blobs)
        worker = await stack.enter_async_context(_worker(given, blobs))
        transport = QuicTransport(
            config.overlay, Identity(signer.seed), lambda address: _hello(given, address)
        )
        parts = Parts(
            signer=signer,
            transport=transport,
            ledger=ledger,
            blobs=blobs,
            math=math,
            worker=worker,
            dice=Random(SystemRandom().getrandbits(64)),
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        seeds = [Seed(seed.address, seed.peer) for seed in map(parse_seed, config.network.seeds)]
        node = Node(parts, given.genesis.genesis, given.plugin, seeds)
        if given.revision is not None:
            node.add(given.revision)
            await _import_head(given, blobs)
        await _serve_node(given, directory, node, transport)


async def _serve_node(
    given: Given, directory: DataDirectory, node: Node, transport: QuicTransport
) -> None:
    started_s = trio.current_time()

    def traffic() -> dict[PeerId, tuple[int, int]]:
        counters = transport.counters()
        return {peer: (one.sent_bytes, one.received_bytes) for peer, one in counters.items()}

    async def answer(request: dict[str, object]) -> dict[str, object]:
        await trio.lowlevel.checkpoint()
        call = request.get("call")
        if call == "process":
            return {"pid": os.getpid()}
        if call != "status":
            raise UsageError(f"unknown call {call!r}; known: status, process")
        uptime_s = trio.current_time() - started_s
        return to_json(snapshot_of(node, given.config.node.name, uptime_s, traffic))

    async def check_workload() -> None:
        if given.plugin.needs_worker and given.revision is not None:
            await _check_workload(node.worker, given.revision.revision)

    async def announce() -> None:
        await trio.lowlevel.checkpoint()
        log.info(
            "%s %s of network %s listens on %s",
            given.plugin.name,
            short(transport.peer),
            given.genesis.genesis.name,
            transport.address or "no address",
        )

    async def control() -> None:
        await serve_control(directory.path, answer)

    await node.run(announce, control, check_workload)


async def _check_workload(worker: Worker, revision: Revision) -> None:
    """A node whose workload is not the revision's must not train or judge."""
    info = await worker.info()
    wanted = revision.workload
    if info.source != wanted.source:
        raise WorkloadError(
            f"workload {wanted.module} here has the source digest {info.source.hex()}, "
            f"the revision names {wanted.source.hex()}: install the revision's version"
        )
    if info.schema != revision.schema or info.train_samples != revision.data.samples:
        raise WorkloadError(
            f"workload {wanted.module} builds another model or data set here "
            f"({info.train_samples} samples, the revision says {revision.data.samples})"
        )


def _hello(given: Given, address: str) -> Hello:
    network = given.genesis.genesis.network
    return Hello(PROTOCOL_VERSION, network, given.plugin.offers, address, "p2pd/0.1.0")


def _damaged(artifact: ArtifactId, what: str) -> None:
    log.error("artifact %s is damaged: %s", short(artifact), what)


async def _math(stack: AsyncExitStack, plugin: RolePlugin, blobs: FileBlobStore) -> Math:
    if not plugin.needs_math:
        return NoMath()
    math = await stack.enter_async_context(MathProcess.open(blobs, MathConfig()))
    await math.self_test()
    return math


@asynccontextmanager
async def _worker(given: Given, blobs: FileBlobStore) -> AsyncIterator[Worker]:
    if not given.plugin.needs_worker or given.revision is None:
        yield NoWorker()
        return
    limits, experiment = given.config.worker, given.config.experiment
    workload = given.revision.revision.workload
    settings = WorkerSettings(
        module=workload.module,
        config=workload.config,
        paths=(experiment.workload_path,) if experiment.workload_path else (),
        threads=limits.threads,
        memory_bytes=limits.memory_bytes or None,
        build_s=limits.build_s,
        train_s=limits.train_s,
        evaluate_s=limits.evaluate_s,
    )
    worker = WorkerProcess(settings, blobs, workload_log.info)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        yield worker
        nursery.cancel_scope.cancel()


async def _import_head(given: Given, blobs: FileBlobStore) -> None:
    """Takes the genesis head from beside the record, if it lies there."""
    record = given.config.experiment.record
    if record is None or given.revision is None:
        return
    revision, path = given.revision.revision, head_file_of(record)
    if blobs.has(revision.head) or not path.is_file():
        return
    manifest = await trio.to_thread.run_sync(_manifest_of, path, revision.schema.id)
    if manifest.id != revision.head:
        raise UsageError(f"{path}: not the genesis head that {record} names")
    blobs.pin(revision.head, "import")
    await blobs.begin(manifest)
    with path.open("rb") as file:
        for index in range(len(manifest.chunks)):
            await blobs.write(revision.head, index, file.read(CHUNK_BYTES))
    log.info("imported the genesis head %s", short(revision.head))


def _manifest_of(path: Path, schema: bytes) -> Manifest:
    chunks, size_bytes = [], 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            chunks.append(sha256(chunk).digest())
            size_bytes += len(chunk)
    return Manifest(ArtifactKind.HEAD, schema, size_bytes, tuple(chunks))
