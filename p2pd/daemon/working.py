"""What trains or evaluates for a node: a process of its own, or its owner's script."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import trio

from p2pd.core.health import Health
from p2pd.core.revision import Revision
from p2pd.daemon.absent import NoWorker
from p2pd.daemon.checked import CheckedWorker
from p2pd.daemon.given import Given
from p2pd.daemon.worker_lines import WorkerLines
from p2pd.errors import UsageError
from p2pd.io.attached import AttachedWorker
from p2pd.io.blobs import FileBlobStore
from p2pd.io.lock import DataDirectory
from p2pd.io.worker import WorkerProcess, WorkerSettings
from p2pd.node.supervision import Supervision
from p2pd.workload.protocol import AS_BUILT, Devices


@dataclass(frozen=True, slots=True)
class Shown:
    """What the status shows of it."""

    lines: WorkerLines
    devices: Callable[[], str]
    """On what it computes."""


def attached_worker(
    given: Given, directory: DataDirectory, blobs: FileBlobStore
) -> AttachedWorker | None:
    """Where a script is to train."""
    if not given.config.worker.attached:
        return None
    if given.plugin.name != "trainer" or given.revision is None:
        raise UsageError("worker.attached is for trainers: a script can only train")
    settings = _worker_settings(given, directory, given.revision.revision)
    return AttachedWorker(replace(settings, devices=AS_BUILT), blobs)  # the script's own affair


@asynccontextmanager
async def own_worker(
    given: Given,
    directory: DataDirectory,
    blobs: FileBlobStore,
    supervision: Supervision,
    health: Health,
    lines: WorkerLines,
) -> AsyncIterator[CheckedWorker | NoWorker]:
    if not given.plugin.needs_worker or given.revision is None:
        yield NoWorker()
        return
    settings = _worker_settings(given, directory, given.revision.revision)
    worker = WorkerProcess(settings, blobs, lines.say)
    lines.doing = worker.doing

    async def serve(*, task_status: trio.TaskStatus[None]) -> None:
        with supervision.vital("worker"):
            await worker.run(task_status=task_status)

    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield CheckedWorker(worker, given.revision.revision, health)
        nursery.cancel_scope.cancel()


def _worker_settings(given: Given, directory: DataDirectory, revision: Revision) -> WorkerSettings:
    limits, experiment = given.config.worker, given.config.experiment
    return WorkerSettings(
        module=revision.workload.module,
        config=revision.workload.config,
        paths=(experiment.workload_path,) if experiment.workload_path else (),
        data=(directory.blobs, *([given.config.data.serve] if given.config.data.serve else [])),
        own=directory.trainer / revision.id.hex(),
        threads=limits.threads,
        devices=_devices(given),
        memory_bytes=limits.memory_bytes or None,
        share=given.config.trainer.share,
        build_s=limits.build_s,
        train_s=limits.train_s,
        evaluate_s=limits.evaluate_s,
    )


def _devices(given: Given) -> Devices:
    """A validator evaluates where its workload puts itself."""
    wanted = given.config.trainer
    if "trainer" not in given.plugin.offers:
        return AS_BUILT
    names = (wanted.devices,) if isinstance(wanted.devices, str) else wanted.devices
    workers = names if isinstance(names, int) else 0
    return Devices(
        () if isinstance(names, int) else names,
        workers,
        wanted.strategy,
        wanted.listen,
        wanted.elsewhere,
    )
