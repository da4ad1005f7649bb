"""What the daemon and the math process say to each other: one frame asks, one frame answers.

Objects are canonical CBOR. Tensors pass as files: a call names paths, never carries data. Imports
no numpy, so that the daemon can afford it.
"""

from dataclasses import dataclass
from enum import IntEnum

from p2pd.core.artifact import Manifest
from p2pd.core.ids import ArtifactId
from p2pd.core.work import Merged
from p2pd.errors import LocalError, P2pError, RemoteError, StoreError, UsageError

FRAME_BYTES_MAX = 2**26
"""Holds the manifest of the largest artifact, or the job of a cohort of thousands."""


class CallKind(IntEnum):
    INSPECT = 1
    """An InspectJob, answered by an Inspection."""
    MERGE = 2
    """A MergeJob, answered by a MergeAnswer; the merged head is at the output path."""
    SELF_TEST = 3
    """Nothing, answered by nothing."""
    REBUILD = 4
    """A RebuildJob, answered by the head's manifest; the head is at the output path."""


class Outcome(IntEnum):
    DONE = 0
    REMOTE = 1
    LOCAL = 2
    STORE = 3
    USAGE = 4


ERRORS: dict[Outcome, type[P2pError]] = {
    Outcome.REMOTE: RemoteError,
    Outcome.LOCAL: LocalError,
    Outcome.STORE: StoreError,
    Outcome.USAGE: UsageError,
}


@dataclass(frozen=True, slots=True)
class InputFile:
    artifact: ArtifactId
    path: str


@dataclass(frozen=True, slots=True)
class Call:
    kind: CallKind
    job: bytes
    files: tuple[InputFile, ...]
    output: str
    """Where a head goes: must not exist."""
    outer_output: str = ""
    """And what is certified beside it, if anything is."""
    step_output: str = ""
    """And the head's step, if it is made of one."""


@dataclass(frozen=True, slots=True)
class Answer:
    outcome: Outcome
    detail: str
    """One line; empty when done."""
    result: bytes


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    merged: Merged
    manifest: Manifest
    outer: Manifest | None
    step: Manifest | None
