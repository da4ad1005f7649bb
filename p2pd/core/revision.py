"""A revision: all that must agree between nodes that train one model together. Signed by the authority."""

import re
from dataclasses import dataclass
from functools import cached_property

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import check_head_codec, outer_schema, update_schema
from p2pd.core.encoding import encode
from p2pd.core.genesis import Endorsement, is_name
from p2pd.core.ids import ID_BYTES, ArtifactId, DecisionId, NetworkId, RevisionId, digest, short
from p2pd.core.reconcile import RECONCILE
from p2pd.core.work import (
    COUNT_MAX,
    LOSS_MAX,
    MILLION,
    MergeRule,
    OuterRule,
    Schema,
    state_parts,
)
from p2pd.errors import LocalError

DATA_KINDS = ("indexed", "generated", "sharded", "custom")
MAX_DESCRIPTOR_CHARACTERS = 500
HEX_ID = re.compile(r"[0-9a-f]{64}")
MAX_PLAN_SHARDS = 2**17
"""A decision holds all leases of its plan, and must fit into a record."""


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    module: str
    """Python module, installed by each operator: code is never fetched."""
    config: str
    """JSON object handed to build(config)."""
    source: bytes
    """SHA-256 of the module's source."""
    metric: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class DataSpec:
    kind: str
    """indexed: a map-style data set that every node builds alike. generated: a virtual stream, each sample of
    which follows from its number and a seed, so that validators make any slice of it again. sharded: files
    that are fetched by lease. custom: what the workload makes of it."""
    samples: int
    shard_samples: int
    """Size of a microshard, the smallest unit that is leased."""
    descriptor: str = ""
    """What the workload calls its data: a node that calls its own by another name refuses to work. Of sharded
    data the id of the set, in hex."""

    def __post_init__(self) -> None:
        if self.kind not in DATA_KINDS:
            raise ValueError(f"data kind {self.kind!r} is none of {', '.join(DATA_KINDS)}")
        if len(self.descriptor) > MAX_DESCRIPTOR_CHARACTERS:
            raise ValueError(
                f"a data descriptor has at most {MAX_DESCRIPTOR_CHARACTERS} characters"
            )
        if self.kind == "sharded" and HEX_ID.fullmatch(self.descriptor) is None:
            raise ValueError("the descriptor of sharded data is the id of their set, in hex")
        if self.samples < 1 or not 1 <= self.shard_samples <= self.samples:
            raise ValueError("data must have samples, and microshards of 1 to all of them")

    @property
    def shard_set(self) -> ArtifactId | None:
        """None where the data are no shard files."""
        if self.kind != "sharded":
            return None
        return ArtifactId(bytes.fromhex(self.descriptor))

    @property
    def shards(self) -> int:
        return -(-self.samples // self.shard_samples)

    def shard_size(self, shard: int) -> int:
        """Samples in one microshard; only the last one may be shorter."""
        return min(self.shard_samples, self.samples - shard * self.shard_samples)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times are milliseconds on each validator's own clock."""

    lease_shards: int
    """Microshards in a newcomer's lease."""
    max_lease_shards: int
    max_roster: int
    deadline_ms: int
    """A window closes at the latest this long after its plan was adopted."""
    settle_ms: int
    """How long an idle height waits after the first trainer showed up, so that others join the same plan."""
    check_limit_ms: int
    """The longest that fetching, merging and evaluating one proposal may take."""
    end_heads: int
    """The run ends after this many promoted heads; 0 for never."""
    end_epochs: int
    """The run ends when this many epochs are trained; 0 for never."""
    lookahead: int = 0
    """0: trainers wait for each decision. 1: they go on with a reserved lease while it is made."""
    reconcile: str = "rebase"
    """With lookahead, what the lease after the next head starts from. rebase: the head and the trainer's own steps
    that are not decided yet. replace: the head alone. root_ema: a mean of the head and the trainer's own weights."""
    target: int | None = None
    """The run ends with the first head whose metric, in millionths, is as good as this; None for never."""
    target_band: int = 1000
    """Millionths: so near to the target a validator goes along with either. At least twice the run-to-run spread."""
    start_steps: int = 0
    """Nominal steps that were made before the genesis head: schedulers go on from there."""
    own_weight: int = MILLION // 2
    """root_ema: of the trainer's own weights in that mean, millionths."""

    def __post_init__(self) -> None:
        if not 1 <= self.lease_shards <= self.max_lease_shards <= 2**16:
            raise ValueError("lease_shards must be at least 1 and at most max_lease_shards (65536)")
        if not 1 <= self.max_roster <= 512:  # a proposal that carries them all fits a message
            raise ValueError("max_roster must be from 1 to 512")
        if self.lookahead not in (0, 1) or self.reconcile not in RECONCILE:
            raise ValueError(f"lookahead must be 0 or 1, reconcile one of {', '.join(RECONCILE)}")
        carried = 1 + 2 * self.lookahead  # leases, reserved ones, and those of the window before
        if self.max_roster * self.max_lease_shards * carried > MAX_PLAN_SHARDS:
            raise ValueError(
                f"max_roster times max_lease_shards must be at most {MAX_PLAN_SHARDS // carried}: "
                "every decision carries the plan; choose larger microshards"
            )
        if min(self.deadline_ms, self.check_limit_ms) < 1 or self.settle_ms < 0:
            raise ValueError("deadline_ms and check_limit_ms must be positive")
        if min(self.end_heads, self.end_epochs) < 0:
            raise ValueError("end_heads and end_epochs must not be negative")
        if not 0 < self.own_weight < MILLION:
            raise ValueError("own_weight must be above 0 and below 1")
        if abs(self.target or 0) > LOSS_MAX or not 0 <= self.target_band <= LOSS_MAX:
            raise ValueError(
                "target must be a number that a metric can be, target_band not negative"
            )
        if not 0 <= self.start_steps <= COUNT_MAX:
            raise ValueError(f"start_steps must be from 0 to {COUNT_MAX}")


@dataclass(frozen=True, slots=True)
class Canary:
    """A merged head may be worse than the head it is compared with by `accept` and is refused beyond `reject`.

    Millionths of the compared head's mean loss, on the validator's own samples, beyond the noise of the paired
    difference; in between the validator is unsure and agrees with either.
    """

    samples: int
    accept: int
    reject: int

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 <= self.accept < self.reject:
            raise ValueError("canary needs samples, and 0 <= accept < reject")


@dataclass(frozen=True, slots=True)
class Origin:
    """Of whose certified head a revision makes its genesis head; who has that chain can look it up."""

    revision: RevisionId
    height: int
    decision: DecisionId

    def __post_init__(self) -> None:
        if {len(self.revision), len(self.decision)} != {ID_BYTES} or self.height < 0:
            raise ValueError("an origin is a decision of a revision")

    @property
    def text(self) -> str:
        return f"height {self.height} of revision {short(self.revision)}"


@dataclass(frozen=True)
class Revision:
    network: NetworkId
    study: str
    experiment: str
    name: str
    workload: WorkloadSpec
    schema: Schema
    data: DataSpec
    schedule: Schedule
    merge: MergeRule
    outer: OuterRule
    canary: Canary
    head: ArtifactId
    """The genesis head."""
    seed: bytes
    """Keys the permutation of the data."""
    codec: str = "f32"
    """How updates travel."""
    head_codec: str = "f32"
    """f32: a head is what was merged. int8: it is the head before and a decoded step, which travels in its place."""
    origin: Origin | None = None
    """None where the genesis head is that of no other revision."""

    def __post_init__(self) -> None:
        for text in (self.study, self.experiment, self.name):
            if not is_name(text):
                raise ValueError(
                    "study, experiment and revision names have 1 to 64 printable characters"
                )
        if len(self.seed) != ID_BYTES or len(self.head) != ID_BYTES:
            raise ValueError("seed and genesis head have 32 bytes")
        update_schema(self.schema, self.codec)
        check_head_codec(self.head_codec)
        update_schema(self.schema, self.head_codec)

    @cached_property
    def id(self) -> RevisionId:
        """What the authority signs."""
        return RevisionId(digest("revision", encode(self)))

    @cached_property
    def update_schema(self) -> Schema:
        """The tensors of an update's file."""
        return update_schema(self.schema, self.codec)

    def schema_of(self, kind: ArtifactKind) -> Schema:
        """The tensors of an artifact's file."""
        match kind:
            case ArtifactKind.HEAD:
                return self.schema
            case ArtifactKind.UPDATE:
                return self.update_schema
            case ArtifactKind.OUTER:
                return self.outer_schema
            case ArtifactKind.STEP:
                return self.step_schema
            case ArtifactKind.SHARD | ArtifactKind.SHARD_SET:
                raise LocalError("data have no tensors")

    @property
    def state_parts(self) -> int:
        """0 where nothing is certified beside a head."""
        return state_parts(self.outer, self.head_codec)

    @cached_property
    def outer_schema(self) -> Schema:
        """The tensors of what is certified beside a head."""
        return outer_schema(self.schema, max(1, self.state_parts))

    @cached_property
    def step_schema(self) -> Schema:
        """The tensors of a head's step."""
        return update_schema(self.schema, self.head_codec)


@dataclass(frozen=True, slots=True)
class SignedRevision:
    revision: Revision
    endorsements: tuple[Endorsement, ...]
