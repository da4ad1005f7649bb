"""What the daemon asks of its two subprocesses, and what they answer. Tensors pass by artifact id, never by value.

Units: samples, inner steps, seconds; losses and metrics in millionths: no float is compared across machines.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, UpdateId, digest

MILLION = 1_000_000
DTYPE_BYTES = {
    "F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip

COUNT_MAX = 2**40
"""Of samples and steps, wherever they are counted."""
LOSS_MAX = 2**53
"""Millionths. Losses and metrics beyond are cut to it: they mean nothing any more, but must fit into an integer."""
FIGURES_MOST = 8
FIGURE_NAME_BYTES = 32
"""So that a report stays small: each validator sends one for each head."""
OUTER_LR_MAX = 10 * MILLION
FULL = 1024
"""A factor of one: r, k and clip factors are integers from 0 to FULL."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    """Canonical: `module.` and `_orig_mod.` stripped, tied weights once."""
    dtype: str
    """As in safetensors: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL."""
    shape: tuple[int, ...]
    buffer: bool
    """Not trained: merged by mean as an absolute value, never touched by the outer optimizer."""


@dataclass(frozen=True)
class Schema:
    tensors: tuple[TensorSpec, ...]
    """Sorted by name."""

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in self.tensors]
        if names != sorted(set(names)):
            raise ValueError("tensor names must be sorted and unique")
        for tensor in self.tensors:
            if tensor.dtype not in DTYPE_BYTES:
                raise ValueError(
                    f"tensor {tensor.name!r:.80} has the unknown type {tensor.dtype!r:.20}"
                )
            if any(side < 0 for side in tensor.shape):
                raise ValueError(f"tensor {tensor.name!r:.80} has a negative side")

    @cached_property
    def id(self) -> bytes:
        return digest("schema", encode(self))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the revision has come: the same on every node, so that schedulers agree."""

    heads: int
    """Promoted heads so far."""
    steps: int
    """Nominal inner steps: per promoted head, the median over its accepted updates."""
    samples: int
    """Samples in accepted updates."""
    epoch: int
    cursor: int
    """Microshards of this epoch's permutation that were dealt at least once."""


@dataclass(frozen=True, slots=True)
class DataInfo:
    """What a workload says of its training data."""

    kind: str
    """As in the revision's DataSpec."""
    descriptor: str
    root: str
    """Where the data lie on this machine, for people; empty where that means nothing."""


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """What the workload turned out to be, once built."""

    schema: Schema
    train_samples: int
    validation_samples: int
    metric: str
    higher_is_better: bool
    source: bytes
    """SHA-256 of the workload's source; a node whose digest differs from the revision's refuses."""
    data: DataInfo = field(default=DataInfo("indexed", "", ""))
    devices: tuple[str, ...] = ()
    """On what it computes here, a worker on each; the first is the main one's. For people."""

    def __post_init__(self) -> None:
        if not all(0 < size <= COUNT_MAX for size in (self.train_samples, self.validation_samples)):
            raise ValueError("a workload has samples to train on and to validate on")


@dataclass(frozen=True, slots=True)
class TrainJob:
    height: int
    base: ArtifactId
    shards: tuple[int, ...]
    """Microshards of the lease: number n holds samples n*size up to (n+1)*size."""
    shard_samples: int
    progress: Progress
    seed: int
    """Shuffling and dropout within the lease; 64 bits, from the plan and the trainer."""
    owner: bytes = b""
    """Peer id of the trainer: it becomes part of the artifact's name."""
    codec: str = "f32"
    """How the update is written, as the revision says."""
    carry: tuple[int, ...] = ()
    """Heights of own earlier leases whose steps are put onto the base before training, as far as they are known."""
    remember: int = 0
    """Of so many last leases the steps are kept, to be carried."""
    own: int = 0
    """Share of the trainer's own weights in what it starts from, as far as they are known; the rest is the base's.
    Millionths."""


@dataclass(frozen=True, slots=True)
class TrainResult:
    artifact: ArtifactId
    size_bytes: int
    samples: int
    steps: int
    loss: int
    """Mean training loss, millionths; shown, never trusted."""
    seconds: float


@dataclass(frozen=True, slots=True)
class EvaluateJob:
    head: ArtifactId
    private_seed: int
    """Draws this validator's own samples from the validation set; never sent to anyone."""
    private_samples: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a workload measures of a head besides its metric: shown, never decided on."""

    name: str
    value: int
    """Millionths."""


def require_figures(figures: tuple[Figure, ...]) -> None:
    """Raises ValueError."""
    names = [figure.name for figure in figures]
    if len(figures) > FIGURES_MOST or len(set(names)) < len(names):
        raise ValueError(f"there are at most {FIGURES_MOST} figures, each of another name")
    if not all(0 < len(name.encode()) <= FIGURE_NAME_BYTES for name in names):
        raise ValueError(f"the name of a figure has 1 to {FIGURE_NAME_BYTES} bytes")
    if any(abs(figure.value) > LOSS_MAX for figure in figures):
        raise ValueError(f"a figure is at most {LOSS_MAX} millionths")


@dataclass(frozen=True, slots=True)
class Evaluation:
    head: ArtifactId
    finite: bool
    metric: int
    """The user's metric on the whole validation set, millionths."""
    loss: int
    """Mean loss on the whole validation set, millionths."""
    samples: int
    private: tuple[int, ...]
    """Loss of each private sample, millionths: the same seed gives the same samples in the same order.

    None where something is not finite.
    """
    figures: tuple[Figure, ...] = ()
    """Further metrics, and probes; those that are finite."""

    def __post_init__(self) -> None:
        require_figures(self.figures)


class Verdict(IntEnum):
    """What was found of one update. All but ACCEPTED and DISPUTED are objective rejections."""

    ACCEPTED = 0
    DISPUTED = 1
    """Validators disagree: weight 0 this window, standing untouched."""
    LEASE = 2
    """Not on the roster, or more samples than the lease holds."""
    BASE = 3
    """Started from another head."""
    SIZE = 4
    LAYOUT = 5
    """Not byte-canonical safetensors."""
    SCHEMA = 6
    NONFINITE = 7


@dataclass(frozen=True, slots=True)
class InspectJob:
    artifact: ArtifactId
    base: ArtifactId
    schema: Schema
    """Of the model."""
    codec: str = "f32"


@dataclass(frozen=True, slots=True)
class Inspection:
    artifact: ArtifactId
    verdict: Verdict
    detail: str
    """What exactly and where, for people; empty when accepted."""


@dataclass(frozen=True, slots=True)
class MergeRule:
    name: str
    """mean | norm_clipped_mean | trimmed_mean."""
    clip: int
    """norm_clipped_mean: updates longer than this many millionths of the cohort's median norm are scaled down to it."""
    trim: int
    """trimmed_mean: share cut off at each end, millionths, below 500_000."""

    def __post_init__(self) -> None:
        if self.name not in ("mean", "norm_clipped_mean", "trimmed_mean"):
            raise ValueError(
                f"merge rule {self.name!r} is none of mean, norm_clipped_mean, trimmed_mean"
            )
        if self.clip <= 0:
            raise ValueError("clip must be positive")
        if not 0 <= self.trim < MILLION // 2:
            raise ValueError("trim must be at least 0 and below 500000 millionths")


@dataclass(frozen=True, slots=True)
class OuterRule:
    name: str
    """mean: the merged values are the head. sgd, nesterov: the base moves by the cohort's mean step."""
    lr: int
    """Millionths."""
    momentum: int
    """Millionths. With any there is state: a velocity."""

    def __post_init__(self) -> None:
        if self.name not in ("mean", "sgd", "nesterov"):
            raise ValueError(f"outer rule {self.name!r:.40} is none of mean, sgd, nesterov")
        if self.name == "mean" and (self.lr, self.momentum) != (MILLION, 0):
            raise ValueError(
                "outer rule mean has lr 1 and no momentum: sgd and nesterov have others"
            )
        if not 0 < self.lr <= OUTER_LR_MAX:
            raise ValueError("outer lr must be above 0 and at most 10")
        if not 0 <= self.momentum < MILLION:
            raise ValueError("outer momentum must be at least 0 and below 1")
        if self.name == "nesterov" and not self.momentum:
            raise ValueError("outer rule nesterov needs a momentum above 0, like 0.9")

    @property
    def keeps_state(self) -> bool:
        return self.momentum > 0


def state_parts(optimizer: OuterRule, head_codec: str) -> int:
    """Numbers certified for each trained parameter beside a head: a velocity, and what the head's codec lost."""
    return int(optimizer.keeps_state) + int(head_codec != "f32")


@dataclass(frozen=True, slots=True)
class MergeInput:
    update: UpdateId
    """Fixes the order of the fold."""
    artifact: ArtifactId
    weight: int
    """samples x r x k; positive."""
    base: ArtifactId | None = None
    """The head that it started from, where that is an earlier one than the base of the merge."""


@dataclass(frozen=True, slots=True)
class MergeJob:
    base: ArtifactId
    outer: ArtifactId | None
    schema: Schema
    inputs: tuple[MergeInput, ...]
    """Ascending by update id, at least one."""
    exponents: tuple[int, ...] | None
    """Certified power-of-two scale of each tensor's features, in schema order.

    None before the first promoted head, and under rules that take none.
    """
    rule: MergeRule
    optimizer: OuterRule
    codec: str = "f32"
    """Of the updates."""
    head_codec: str = "f32"
    """With int8, the head is the base and a decoded step."""

    @property
    def state_parts(self) -> int:
        return state_parts(self.optimizer, self.head_codec)


@dataclass(frozen=True, slots=True)
class HeadStep:
    """What a head was made of: whoever has the base needs the step only, and makes the head of them."""

    base: ArtifactId
    artifact: ArtifactId


@dataclass(frozen=True, slots=True)
class RebuildJob:
    head: ArtifactId
    """What must come out."""
    step: HeadStep
    schema: Schema
    """Of the model."""
    codec: str
    """Of the step."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rule that clips found in its cohort."""

    norms: tuple[int, ...]
    """Per input, the integer square root of its exact squared norm, in units of 2**min(exponents used)."""
    exponents: tuple[int, ...]
    """For the next merge, from this cohort."""


@dataclass(frozen=True, slots=True)
class Merged:
    """All of it is equal bit for bit on every machine."""

    head: ArtifactId
    outer: ArtifactId | None
    rule: str
    """The rule that was used: mean where the cohort was too small for the wanted one."""
    clips: tuple[int, ...]
    """Per input, 0 to FULL; FULL when not clipped."""
    measured: Measured | None
    """None where the rule asks for no norms: taking them costs more than the mean itself."""
    step: HeadStep | None = None
    """None where heads are as merged."""
