"""All that p2pd doctor finds: the machine, its node, a workload, and what follows. From the main thread.

Units: seconds, bytes.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from p2pd.config.node import StoreSettings
from p2pd.core.codecs import update_schema
from p2pd.daemon.asking import asking
from p2pd.daemon.capability import Fit, Playable, playable
from p2pd.daemon.examine import Lease, Run, first_run
from p2pd.errors import P2pError, WorkloadError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.control import ask
from p2pd.io.durable import TEMPORARY, storing, temporary_directory
from p2pd.io.probing import Machine, probe
from p2pd.io.worker import WorkerProcess, WorkerSettings
from p2pd.status.snapshot import Snapshot, from_json
from p2pd.tensors.layout import layout_of

ASK_S = 5.0
SHARD_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class Running:
    """The node of the data directory, as it says itself."""

    role: str
    uptime_s: float
    links: int
    sent_bytes_s: float
    """The most over two seconds since its start, over all links."""
    received_bytes_s: float
    troubles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    machine: Machine
    running: Running | None
    """None where no node runs there."""
    fit: Fit | None
    fit_why: str
    """Why a workload that was named did not run; empty where none was."""
    roles: tuple[Playable, ...]


async def examine_machine(data_dir: Path, workload: WorkerSettings | None) -> Found:
    machine = probe(data_dir)
    fit, why = await _fit(machine, workload) if workload is not None else (None, "")
    roles = playable(machine, fit, why, numpy=find_spec("numpy") is not None)
    return Found(machine, _running(data_dir), fit, why, roles)


def _running(data_dir: Path) -> Running | None:
    try:
        seen: Snapshot = from_json(ask(data_dir, {"call": "status"}, ASK_S))
    except P2pError:
        return None
    node = seen.node
    return Running(
        node.role,
        node.uptime_s,
        sum(peer.linked for peer in seen.peers),
        node.most_sent_bytes_s,
        node.most_received_bytes_s,
        node.degraded,
    )


async def _fit(machine: Machine, workload: WorkerSettings) -> tuple[Fit | None, str]:
    if machine.torch is None:
        return None, machine.torch_why
    place = temporary_directory()
    lease = Lease(shards=1, shard_samples=SHARD_SAMPLES)
    try:
        with storing(place), TemporaryDirectory(prefix=TEMPORARY, dir=place) as directory:
            unbounded = StoreSettings(quota_bytes=0, reserve_bytes=0)
            store = FileBlobStore(Path(directory) / "blobs", unbounded, on_damage=lambda *_: None)
            worker = WorkerProcess(workload, store, lambda line: None)
            run = await asking(worker, lambda one: first_run(one, lease))
    except WorkloadError as error:
        return None, str(error)
    return _fit_of(machine, workload.module, run), ""


def _fit_of(machine: Machine, module: str, run: Run) -> Fit:
    quicker = min(run.leases, key=lambda one: one.seconds / one.samples)
    held = run.look.footprint
    devices = machine.torch.devices if machine.torch is not None else ()
    return Fit(
        module=module,
        samples_s=quicker.samples / quicker.seconds,
        batch=max(1, -(-quicker.samples // quicker.steps)),
        state_bytes=layout_of(update_schema(run.info.schema, "f32").tensors).size_bytes,
        evaluate_s=run.evaluate_s,
        built_bytes=held.built,
        peak_bytes=held.peak,
        device=held.device,
        device_peak_bytes=held.device_peak,
        device_total_bytes=next((d.total_bytes for d in devices if d.name == held.device), 0),
    )
