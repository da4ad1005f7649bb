"""A workload examined before a network depends on it: what it is, what it costs, what is wrong with it.

Two processes build it, as on two nodes: a set whose order differs by process, or chance without a seed,
shows between them and not within one. Units: seconds, samples, bytes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import trio

from p2pd.config.node import StoreSettings
from p2pd.core.ids import ArtifactId
from p2pd.core.wording import counted
from p2pd.core.work import (
    MILLION,
    EvaluateJob,
    Evaluation,
    Progress,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)
from p2pd.daemon.asking import asking
from p2pd.errors import WorkloadError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.durable import TEMPORARY, storing, temporary_directory
from p2pd.io.files import ArtifactFiles
from p2pd.io.worker import WorkerProcess, WorkerSettings
from p2pd.ports import Worker
from p2pd.workload.protocol import Look

PRIVATE_SAMPLES = 64
"""As the canary of a validator draws by default."""
SEED = 1
CACHE = "__pycache__"


class Subject(Worker, Protocol):
    """A worker process, as far as it is asked here."""

    async def initial(self) -> ArtifactId: ...

    async def look(self, head: ArtifactId) -> Look: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What it is made to train."""

    shards: int = 8
    shard_samples: int = 16


@dataclass(frozen=True, slots=True)
class Examined:
    info: WorkloadInfo
    head: ArtifactId
    """That it starts from, in the store."""
    trained: TrainResult
    """Of the quicker of two leases: the first one warms up."""
    evaluation: Evaluation
    """Of that head."""
    evaluate_s: float
    look: Look
    same_head: bool
    """Two processes start from the same weights."""
    same_update: bool
    """They train one lease to the same bits."""
    printed: tuple[str, ...]
    files: tuple[str, ...]
    """That appeared in the working directory."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What harms no training, each in a line that says what to do or what it costs."""
        return tuple(_warnings(self))


async def examine(
    settings: WorkerSettings, store: ArtifactFiles, log: Callable[[str], None], lease: Lease
) -> Examined:
    """Builds it twice, trains, evaluates, loads. From the main thread.

    Raises:
        WorkloadError: it failed, or cannot be trusted with a head; the message says what to do.
    """
    printed: list[str] = []

    def note(line: str) -> None:
        printed.append(line)
        log(line)

    before = _entries()
    first = await asking(
        WorkerProcess(settings, store, note), lambda worker: first_run(worker, lease)
    )
    again = await asking(
        WorkerProcess(settings, store, note), lambda worker: second_run(worker, lease, first)
    )
    own = tuple(line for line in printed if not line.startswith("p2pd: "))
    return examined(first, again, own, tuple(sorted(_entries() - before)))


def examined(
    first: "Run", again: "Run", printed: tuple[str, ...], files: tuple[str, ...]
) -> Examined:
    return Examined(
        first.info,
        first.head,
        min(first.leases, key=lambda one: one.seconds / one.samples),
        first.evaluation,
        first.evaluate_s,
        first.look,
        again.head == first.head,
        again.leases[0].artifact == first.leases[0].artifact,
        printed,
        files,
    )


async def examine_alone(
    settings: WorkerSettings, log: Callable[[str], None], lease: Lease
) -> Examined:
    """As examine, with a store of its own that is gone afterwards."""
    place = temporary_directory()
    with storing(place), TemporaryDirectory(prefix=TEMPORARY, dir=place) as directory:
        unbounded = StoreSettings(quota_bytes=0, reserve_bytes=0)
        store = FileBlobStore(Path(directory) / "blobs", unbounded, on_damage=lambda *_: None)
        return await examine(settings, store, log, lease)


@dataclass(frozen=True, slots=True)
class Run:
    """What one process did."""

    info: WorkloadInfo
    head: ArtifactId
    leases: tuple[TrainResult, TrainResult]
    evaluation: Evaluation
    evaluate_s: float
    look: Look


async def first_run(worker: Subject, lease: Lease) -> Run:
    """Builds, trains twice, evaluates twice, looks: whatever one process can show.

    Raises:
        WorkloadError: as examine.
    """
    info = await worker.info()
    head = await worker.initial()
    leases = await _train(worker, info, head, lease, 1)
    return await _judge(worker, info, head, leases)


async def second_run(worker: Subject, lease: Lease, first: Run) -> Run:
    """The same once more, as another node: then a second lease that is not the first one's."""
    info = await worker.info()
    if info != first.info:
        raise WorkloadError(
            f"build makes another workload in each process: {_other(first.info, info)}"
        )
    head = await worker.initial()
    leases = await _train(worker, info, first.head, lease, 2)
    run = await _judge(worker, info, first.head, leases)
    if (found := run.evaluation) != first.evaluation:
        raise WorkloadError(
            f"two processes evaluate one head differently, {_told(first.evaluation)} and"
            f" {_told(found)}: look for a set or a directory that has no order, or chance without a seed"
        )
    alike = {one.artifact for one in (*leases, *first.leases)}
    if len(alike) == 1 and _shards(info, lease, 1) != _shards(info, lease, 2):
        raise WorkloadError(
            "training gives the same whatever is leased: have it train on lease.samples (a stream must"
            " draw by chance, or have set_lease), with a learning rate that is not 0 from the start"
        )
    return Run(info, head, leases, found, run.evaluate_s, run.look)


async def _train(
    worker: Subject, info: WorkloadInfo, head: ArtifactId, lease: Lease, other: int
) -> tuple[TrainResult, TrainResult]:
    """The same lease in every process, then one that is this process's own."""
    first = await worker.train(_job(info, head, lease, 0))
    return first, await worker.train(_job(info, head, lease, other))


async def _judge(
    worker: Subject,
    info: WorkloadInfo,
    head: ArtifactId,
    leases: tuple[TrainResult, TrainResult],
) -> Run:
    job = EvaluateJob(head, SEED, PRIVATE_SAMPLES)
    evaluation = await worker.evaluate(job)
    started_s = trio.current_time()
    found = await worker.evaluate(job)
    seconds = trio.current_time() - started_s
    if not evaluation.finite:
        raise WorkloadError(
            "the head that it starts from evaluates to no finite number: look at the loss and the"
            " metric of a model that was not trained"
        )
    if found != evaluation:
        raise WorkloadError(
            f"one head evaluates to {_told(evaluation)}, then to {_told(found)}: switch off what"
            " draws by chance, and what remembers, in evaluation (model.eval())"
        )
    look = await worker.look(head)
    for name, what in (
        (look.evaluation_moved, "evaluate changes"),
        (look.load_missed, "load leaves"),
    ):
        if name:
            raise WorkloadError(f"{what} {name}: after load(state), state() must be that state")
    return Run(info, head, leases, evaluation, seconds, look)


def _job(info: WorkloadInfo, head: ArtifactId, lease: Lease, number: int) -> TrainJob:
    progress = Progress(0, 0, 0, 0, 0)
    shards = _shards(info, lease, number)
    return TrainJob(1, head, shards, lease.shard_samples, progress, SEED + number)


def _shards(info: WorkloadInfo, lease: Lease, number: int) -> tuple[int, ...]:
    """Of lease number n; from the start again where the data are too few for another one."""
    there = -(-info.train_samples // lease.shard_samples)
    count = min(lease.shards, there)
    start = number * count if (number + 1) * count <= there else 0
    return tuple(range(start, start + count))


def _entries() -> set[str]:
    if Path().samefile(temporary_directory()):
        return set()  # anybody writes there
    return {entry.name for entry in os.scandir(Path()) if entry.name != CACHE}


def _other(first: WorkloadInfo, second: WorkloadInfo) -> str:
    pairs = (
        ("the schema", first.schema, second.schema),
        ("train_samples", first.train_samples, second.train_samples),
        ("validation_samples", first.validation_samples, second.validation_samples),
        ("the metric", first.metric, second.metric),
        ("the data", first.data.descriptor, second.data.descriptor),
    )
    for name, one, other in pairs:
        if one != other and name == "the schema":
            return f"its tensors are not the same: {_tensor(first, second)}"
        if one != other:
            return f"{name} {one!r:.80} and {other!r:.80}"
    return "its source or its data were changed meanwhile"


def _tensor(first: WorkloadInfo, second: WorkloadInfo) -> str:
    differing = set(first.schema.tensors) ^ set(second.schema.tensors)
    return ", ".join(sorted({tensor.name for tensor in differing})[:4])


def _told(evaluation: Evaluation) -> str:
    return f"{evaluation.metric / MILLION:g} (loss {evaluation.loss / MILLION:g})"


def _warnings(found: Examined) -> list[str]:
    lines = []
    if not found.same_update:
        lines.append(
            "two processes train one lease to different bits: a run cannot be repeated exactly, and a"
            " restarted trainer does not go on to the bit; seed all chance, or accept it (GPUs sum in any order)"
        )
    if not found.same_head:
        lines.append(
            "build draws other first weights in each process: the publisher's are taken; seed what"
            ' draws them from config["seed"]'
        )
    if "samples may repeat" in found.info.data.descriptor:
        lines.append("the stream is seeded anew for each lease: samples may repeat, or never come")
    lines += [
        f"{change}: it is put back, so set it where it is used" for change in found.look.changed
    ]
    if found.look.running:
        lines.append(
            f"{found.look.running} of the processes that it starts are there after a call: they end"
            " with the worker"
        )
    if found.printed:
        lines.append(
            f"it prints, {counted(len(found.printed), 'line')} so far: they go to the node's log;"
            f" the first is {found.printed[0]!r:.80}"
        )
    if found.files:
        lines.append(
            f"{', '.join(found.files[:4])} appeared in the directory that it was started in: if it"
            " writes files, have it write them elsewhere"
        )
    return lines
