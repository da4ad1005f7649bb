"""What the daemon and its worker process say to each other; tensors pass as files, named by path.

One call at a time. CANCEL names a call by its number, and is answered by that call's own answer.
Paths are bytes, as the file system has them. Durations are in microseconds, since no float travels.
"""

from dataclasses import dataclass
from enum import IntEnum

from p2pd.core.artifact import Manifest
from p2pd.core.work import COUNT_MAX, LOSS_MAX, EvaluateJob, TrainJob

LIMIT_BYTES = 64 * 2**20
"""Of a frame: a manifest of a terabyte is half of it."""


DURATION_MAX_US = 2**53
AUTO = "auto"
"""Devices: every GPU that torch sees, else as the workload was built. Strategy: the workload's own, else ddp."""


class Call(IntEnum):
    BUILD = 1
    """BuildCall -> WorkloadInfo"""
    INITIAL = 2
    """InitialCall -> Manifest"""
    TRAIN = 3
    """TrainCall -> Done"""
    EVALUATE = 4
    """EvaluateCall -> Evaluation"""
    CANCEL = 5
    """Why, in words; the number is that of the call that is no longer wanted."""
    LOOK = 6
    """LookCall -> Look"""
    CERTIFIED = 7
    """Certified. To a script that drives its trainer itself; not answered."""
    REFUSED = 8
    """Failure. To such a script, and the last word to it; not answered."""


DESCRIPTORS_LOST = 83
"""Exit status of a process whose user's code has closed the descriptors that it answers through."""


class Outcome(IntEnum):
    DONE = 1
    CANCELLED = 2
    FAILED = 3
    """The body is a Failure."""
    ENDING = 4
    """The same, and the process is of no more use: it trained on several devices, and one of them is gone."""
    LOST = 5
    """From one of several workers to the main one: another has gone. Whoever that was says why."""


@dataclass(frozen=True, slots=True)
class Request:
    number: int
    call: Call
    body: bytes
    limit_ms: int = 0
    """Who has not answered by then is taken to hang; 0 for never."""


@dataclass(frozen=True, slots=True)
class Answer:
    number: int
    outcome: Outcome
    body: bytes


@dataclass(frozen=True, slots=True)
class Devices:
    """Where to compute; with neither names nor workers, where the workload builds its model."""

    names: tuple[str, ...] = ()
    """`auto`, or devices of torch, one worker process each; the first is the main one's."""
    workers: int = 0
    """So many processes on the CPU instead."""
    strategy: str = AUTO
    listen: str = ""
    """host:port where workers on other machines come to; empty for none."""
    elsewhere: int = 0
    """How many of them there are."""


AS_BUILT = Devices()
"""One device: the workload's own choice."""


@dataclass(frozen=True, slots=True)
class BuildCall:
    module: str
    config: str
    """JSON: the revision's workload config."""
    threads: int
    devices: Devices = AS_BUILT
    paths: tuple[bytes, ...] = ()
    """Where further workers look for the module, before all other places."""


@dataclass(frozen=True, slots=True)
class InitialCall:
    output: bytes
    weights: bytes = b""
    """A safetensors file to start from; empty: as the workload builds itself."""


@dataclass(frozen=True, slots=True)
class TrainCall:
    job: TrainJob
    base: bytes
    output: bytes
    own: bytes = b""
    """The trainer's directory, for what must survive its process; empty for none."""


@dataclass(frozen=True, slots=True)
class Done:
    manifest: Manifest
    samples: int
    steps: int
    loss: int
    """Mean, millionths."""
    duration_us: int

    def __post_init__(self) -> None:
        if not 0 < self.steps <= self.samples <= COUNT_MAX:
            raise ValueError(f"{self.steps} steps and {self.samples} samples of a lease")
        if abs(self.loss) > LOSS_MAX:
            raise ValueError(f"a loss is {LOSS_MAX} millionths at the most")
        if not 0 <= self.duration_us <= DURATION_MAX_US:
            raise ValueError(f"a lease of {self.duration_us} microseconds")


@dataclass(frozen=True, slots=True)
class Certified:
    """What became of the update of one lease."""

    height: int
    """Of its plan."""
    decided: int
    """The height at which it was decided, or was over."""
    accepted: bool
    why: str
    """In a few words; empty where it was accepted."""
    weight: int
    """Its share in the new head, millionths."""
    head: bytes
    """The canonical head since."""
    metric: int | None
    """Of that head, millionths: the median of the validators' reports, as far as they have come."""
    samples: int
    steps: int
    loss: int
    """Mean training loss, millionths."""


@dataclass(frozen=True, slots=True)
class EvaluateCall:
    job: EvaluateJob
    head: bytes


@dataclass(frozen=True, slots=True)
class LookCall:
    head: bytes
    """Which was evaluated last."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory that the process holds, in bytes."""

    built: int
    """Once the workload was built."""
    peak: int
    """At most since it began."""
    device: str
    """The GPU that it used most; empty for none."""
    device_peak: int


@dataclass(frozen=True, slots=True)
class Look:
    """What only the process itself can see of its workload."""

    tied: tuple[tuple[str, ...], ...]
    """Groups of names that are one tensor."""
    changed: tuple[str, ...]
    """What it left otherwise for all that follows in its process, in words."""
    evaluation_moved: str
    """A tensor that evaluation changed; empty where none is."""
    load_missed: str
    """A tensor that is not what was loaded into it; empty where none is."""
    running: int
    """Processes of its own that are there still."""
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class Failure:
    message: str
    other: bool = False
    """What is installed is not what is wanted."""
