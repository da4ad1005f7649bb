"""From a workload to a signed revision, with the head that it starts from as a file beside its record.

The workload is built once, in its own process. Seconds here are milliseconds in the revision, and
factors millionths.
"""

import json
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from p2pd.config.node import StoreSettings
from p2pd.core.artifact import Manifest
from p2pd.core.codecs import check_head_codec, update_schema
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.ids import ID_BYTES, ArtifactId
from p2pd.core.revision import (
    Canary,
    DataSpec,
    Revision,
    Schedule,
    SignedRevision,
    WorkloadSpec,
)
from p2pd.core.work import (
    MILLION,
    EvaluateJob,
    Evaluation,
    MergeRule,
    OuterRule,
    Schema,
    WorkloadInfo,
)
from p2pd.daemon.asking import asking
from p2pd.daemon.beginning import AS_BUILT, Beginning, check_beginning, check_head
from p2pd.daemon.examine import Examined, Lease, examine
from p2pd.daemon.outer import BY_MEAN, OuterSettings, outer_rule
from p2pd.errors import UsageError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.durable import TEMPORARY, exists, storing, sync_directory, write_durably
from p2pd.io.worker import WorkerProcess, WorkerSettings
from p2pd.ports import Signer
from p2pd.tensors.layout import layout_of
from p2pd.wire.records import seal_revision

RECORD_SUFFIX = ".revision.cbor"
HEAD_SUFFIX = ".head.safetensors"
MOST = 10**12
"""Of any setting, so that its millionths are a number of 64 bits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RevisionSettings:
    study: str
    """What is being found out; 1 to 64 characters."""
    experiment: str
    """One way to find it out."""
    name: str
    """Of this revision: one experiment may have several, one after another."""
    workload: str
    """Importable name of the workload's module; every node has it installed."""
    config: str = "{}"
    """JSON object handed to build(config)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleSettings:
    shard_samples: int = 16
    """Samples in a microshard, the smallest unit that is leased."""
    lease_shards: int = 8
    """Microshards in a newcomer's lease. What is delivered makes the next one longer."""
    max_lease_shards: int = 64
    """Most microshards in a lease."""
    max_roster: int = 16
    """Most trainers in a window: a validator takes in that many updates."""
    deadline_s: float = 120.0
    """A window closes at the latest after so long; it closes when all leases are delivered."""
    settle_s: float = 2.0
    """How long an idle network waits after its first trainer came, so that others join."""
    check_limit_s: float = 60.0
    """The longest that fetching, merging and evaluating one proposal may take."""
    end_heads: int = 0
    """The run ends after so many promoted heads; 0 for never."""
    end_epochs: int = 0
    """The run ends after so many epochs; 0 for never."""
    lookahead: int = 0
    """0: trainers wait for each decision. 1: they go on with a reserved lease while it is made."""
    reconcile: str = "rebase"
    """With lookahead 1, from what they go on: rebase (the new head and their own steps), replace (the head alone) or
    root_ema (a mean of the head and of their own weights)."""
    own_weight: float = 0.5
    """root_ema: the share of a trainer's own weights in that mean, above 0 and below 1."""
    target: float = 0.0
    """The run ends with the first head whose metric is as good as this; 0 for never."""
    target_band: float = 0.001
    """So near to the target a validator goes along with either; at least twice what the metric varies on one head."""
    start_steps: int = 0
    """Nominal steps made before the first head: learning-rate schedulers go on from there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateSettings:
    codec: str = "f32"
    """f32: the values as they are. bf16, int8, int4: the steps, in a half, a quarter or a seventh of the bytes."""
    head_codec: str = "f32"
    """f32: the next head is what was merged. int8: it is the head before and an int8 step towards that, and who has the
    head before fetches the step, a quarter of the bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeSettings:
    rule: str = "norm_clipped_mean"
    """mean, norm_clipped_mean or trimmed_mean."""
    clip: float = 2.0
    """norm_clipped_mean: updates longer than so many median norms are scaled down to that."""
    trim: float = 0.1
    """trimmed_mean: share cut off at each end, below 0.5."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanarySettings:
    samples: int = 64
    """Validation samples that each validator draws for itself, in private."""
    accept: float = 0.02
    """A merged head may be worse by this share of the loss of the head before, beyond noise."""
    reject: float = 0.1
    """Beyond this share a validator refuses it; in between it goes along with either."""


PUBLISH_TABLES: Mapping[str, type] = {
    "revision": RevisionSettings,
    "schedule": ScheduleSettings,
    "update": UpdateSettings,
    "merge": MergeSettings,
    "outer": OuterSettings,
    "canary": CanarySettings,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishRequest:
    genesis: Genesis
    signers: tuple[Signer, ...]
    """Of the authority; enough for its threshold."""
    out: Path
    """Where the record goes; by custom NAME.revision.cbor."""
    revision: RevisionSettings
    schedule: ScheduleSettings
    merge: MergeSettings
    canary: CanarySettings
    update: UpdateSettings = UpdateSettings()
    outer: OuterSettings = BY_MEAN
    beginning: Beginning = AS_BUILT
    workload_paths: tuple[Path, ...] = ()
    """Directories searched for the workload's module before all others."""
    data: tuple[Path, ...] = ()
    """Directories of shard files."""
    log: Callable[[str], None]
    """Gets each line that the workload prints."""
    examine: bool = True
    """Whether the workload is examined before anything is signed."""


@dataclass(frozen=True, slots=True)
class Published:
    signed: SignedRevision
    info: WorkloadInfo
    head: Manifest
    record_file: Path
    head_file: Path
    evaluation: Evaluation | None
    """Of given weights, which the workload was made to show that it can use."""
    examined: Examined | None

    @property
    def update_bytes(self) -> int:
        """What one update weighs, by the revision's codec."""
        return layout_of(self.signed.revision.update_schema.tensors).size_bytes

    @property
    def outer_bytes(self) -> int:
        """What is certified beside a head weighs; 0 where nothing is."""
        revision = self.signed.revision
        kept = revision.state_parts > 0
        return layout_of(revision.outer_schema.tensors).size_bytes if kept else 0

    @property
    def step_bytes(self) -> int:
        """What a trainer that has the head before fetches of the next one."""
        return layout_of(self.signed.revision.step_schema.tensors).size_bytes

    @property
    def window_bytes(self) -> int:
        """What a validator takes in per window when the roster is full."""
        return self.update_bytes * self.signed.revision.schedule.max_roster


def head_file_of(record_file: Path) -> Path:
    """Where the genesis head of a record lies: NAME.head.safetensors beside NAME.revision.cbor."""
    name = record_file.name.removesuffix(RECORD_SUFFIX)
    return record_file.with_name(name + HEAD_SUFFIX)


async def publish(request: PublishRequest) -> Published:
    """Examines and builds the workload, then writes the head and last the record. From the main thread.

    Raises:
        UsageError: the settings make no revision, too few signers, or a file is there already.
        WorkloadError: the workload failed.
        StoreError: the files cannot be written.
    """
    head_file = head_file_of(request.out)
    _check(request, head_file)
    with (
        storing(request.out.parent),
        tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=request.out.parent) as directory,
    ):
        settings = StoreSettings(quota_bytes=0, reserve_bytes=0)
        store = FileBlobStore(Path(directory) / "blobs", settings, on_damage=lambda *_: None)
        examined = await _examine(request, store) if request.examine else None
        info, head, evaluation = await _build(request, store, examined)
        signed = seal_revision(revision_of(request, info, head.id), request.signers)
        store.path(head.id).replace(head_file)
        sync_directory(head_file.parent)
        write_durably(request.out, encode(signed))
    return Published(signed, info, head, request.out, head_file, evaluation, examined)


def _check(request: PublishRequest, head_file: Path) -> None:
    """What can be refused before the workload is built, which takes seconds."""
    keys = {signer.key for signer in request.signers} & set(request.genesis.authority)
    if len(keys) < request.genesis.threshold:
        raise UsageError(
            f"authority: {len(keys)} of the keys given are of this network's authority, "
            f"{request.genesis.threshold} must sign: name their key files by --authority"
        )
    for path in (request.out, head_file):
        if exists(path):
            raise UsageError(f"{path}: exists already: choose another name, or move it away")
    _check_config(request.revision.config)
    _check_size("schedule", request.schedule)
    _check_size("merge", request.merge)
    _check_size("outer", request.outer)
    _check_size("canary", request.canary)
    _parts(request)
    check_beginning(request.beginning)


def _check_config(text: str) -> None:
    """What every node's worker will read: JSON as all have it, not as Python alone does."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"revision.config {text!r:.80}: must be a JSON object, without NaN or Infinity, and not nested deeply"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"revision.config {text!r:.80}: must be a JSON object")


def _refuse(name: str) -> None:
    raise ValueError(name)


def _check_size(
    table: str, settings: ScheduleSettings | MergeSettings | OuterSettings | CanarySettings
) -> None:
    """Whatever is signed is a whole number of 64 bits, of milliseconds or millionths."""
    for key, value in asdict(settings).items():
        if isinstance(value, int | float) and abs(value) > MOST:
            raise UsageError(f"{table}.{key}: {value} is too large: {MOST} is the most")


Built = tuple[WorkloadInfo, Manifest, Evaluation | None]
"""The evaluation is that of given weights."""


async def _examine(request: PublishRequest, store: FileBlobStore) -> Examined:
    """Trains a newcomer's lease of the revision."""
    times = request.schedule
    lease = Lease(shards=times.lease_shards, shard_samples=times.shard_samples)
    return await examine(_settings(request), store, request.log, lease)


async def _build(request: PublishRequest, store: FileBlobStore, examined: Examined | None) -> Built:
    if examined is not None and request.beginning.weights is None:
        built = store.manifest(examined.head)
        assert built is not None  # it is what was examined
        return examined.info, built, None

    async def ask(worker: WorkerProcess) -> Built:
        info = await worker.info()
        head = store.manifest(await worker.initial(request.beginning.weights))
        assert head is not None  # it has just been put there
        return info, head, await _evaluate(request, worker, head.id)

    return await asking(WorkerProcess(_settings(request), store, request.log), ask)


def _settings(request: PublishRequest) -> WorkerSettings:
    return WorkerSettings(
        module=request.revision.workload,
        config=request.revision.config,
        paths=request.workload_paths,
        data=request.data,
    )


async def _evaluate(
    request: PublishRequest, worker: WorkerProcess, head: ArtifactId
) -> Evaluation | None:
    if request.beginning.weights is None:
        return None
    evaluation = await worker.evaluate(EvaluateJob(head, 0, 1))
    check_head(request.beginning, head, evaluation)
    return evaluation


def revision_of(request: PublishRequest, info: WorkloadInfo, head: ArtifactId) -> Revision:
    """The revision that is asked for, of a workload that was built, its data in an order of its own.

    Raises UsageError: the settings make none.
    """
    names = request.revision
    schedule, merge, outer, canary = _parts(request)
    try:
        return Revision(
            network=request.genesis.network,
            study=names.study,
            experiment=names.experiment,
            name=names.name,
            workload=WorkloadSpec(
                names.workload, names.config, info.source, info.metric, info.higher_is_better
            ),
            schema=info.schema,
            data=DataSpec(
                info.data.kind,
                info.train_samples,
                request.schedule.shard_samples,
                info.data.descriptor,
            ),
            schedule=schedule,
            merge=merge,
            outer=outer,
            canary=canary,
            head=head,
            seed=secrets.token_bytes(ID_BYTES),
            codec=request.update.codec,
            head_codec=request.update.head_codec,
            origin=request.beginning.origin,
        )
    except ValueError as error:
        raise UsageError(f"revision: {error}") from error


def _parts(request: PublishRequest) -> tuple[Schedule, MergeRule, OuterRule, Canary]:
    times, merge, outer, canary = request.schedule, request.merge, request.outer, request.canary
    try:
        update_schema(Schema(()), request.update.codec)
        check_head_codec(request.update.head_codec)
        return (
            Schedule(
                lease_shards=times.lease_shards,
                max_lease_shards=times.max_lease_shards,
                max_roster=times.max_roster,
                deadline_ms=round(times.deadline_s * 1000),
                settle_ms=round(times.settle_s * 1000),
                check_limit_ms=round(times.check_limit_s * 1000),
                end_heads=times.end_heads,
                end_epochs=times.end_epochs,
                lookahead=times.lookahead,
                reconcile=times.reconcile,
                own_weight=round(times.own_weight * MILLION),
                target=round(times.target * MILLION) or None,
                target_band=round(times.target_band * MILLION),
                start_steps=times.start_steps,
            ),
            MergeRule(merge.rule, round(merge.clip * MILLION), round(merge.trim * MILLION)),
            outer_rule(outer, times.end_heads),
            Canary(canary.samples, round(canary.accept * MILLION), round(canary.reject * MILLION)),
        )
    except ValueError as error:
        raise UsageError(f"revision: {error}") from error
