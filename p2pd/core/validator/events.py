"""What a validator's machine is told, and what it asks for. Each job effect is answered by the event that it names."""

from dataclasses import dataclass
from typing import Any

from p2pd.core.decision import Decision, Record
from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import ArtifactId, DecisionId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.voting.events import PeerHeard
from p2pd.core.work import Evaluation, Inspection, InspectJob, Merged, MergeJob

# Events


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """A verified object of the height that is being decided; its author may send it."""

    signed: Signed[Any]


@dataclass(frozen=True, slots=True)
class Adopted:
    """The chain has moved on, by this validator's doing or by catching up."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class RecordHeld:
    """A governance record that is stored here: endorsed, and next in the log as this node knows it."""

    signed: SignedGovernance


@dataclass(frozen=True, slots=True)
class Fetched:
    artifact: ArtifactId
    here: bool


@dataclass(frozen=True, slots=True)
class Inspected:
    artifact: ArtifactId
    inspection: Inspection | None
    """None: this machine could not look at it; that says nothing about the update."""


@dataclass(frozen=True, slots=True)
class MergeDone:
    inputs: bytes
    merged: Merged | None


@dataclass(frozen=True, slots=True)
class EvaluationDone:
    head: ArtifactId
    evaluation: Evaluation | None
    """None: the head could not be evaluated here."""


@dataclass(frozen=True, slots=True)
class ChoicesFetched:
    value: DecisionId
    choices: bytes | None


Event = (
    ObjectSeen
    | Adopted
    | RecordHeld
    | PeerHeard
    | Fetched
    | Inspected
    | MergeDone
    | EvaluationDone
    | ChoicesFetched
)

# Effects, to be carried out in order; those that are jobs go on in the background


@dataclass(frozen=True, slots=True)
class Remember:
    """Store the voting state durably before anything that follows."""

    height: int
    state: bytes


@dataclass(frozen=True, slots=True)
class Publish:
    """Sign content as kind for the height that is open, and flood it."""

    signed: Signed[Any]


@dataclass(frozen=True, slots=True)
class FetchUpdate:
    """Job: get an update's artifact from its author or from other validators. Answered by Fetched."""

    artifact: ArtifactId
    author: PeerId


@dataclass(frozen=True, slots=True)
class Inspect:
    """Job, answered by Inspected."""

    job: InspectJob


@dataclass(frozen=True, slots=True)
class Merge:
    """Job, answered by MergeDone."""

    inputs: bytes
    job: MergeJob


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Job, answered by EvaluationDone."""

    head: ArtifactId


@dataclass(frozen=True, slots=True)
class FetchOuter:
    """Job: have the outer optimizer's state here before it is merged upon. Merging asks again, so no event answers."""

    artifact: ArtifactId


@dataclass(frozen=True, slots=True)
class FetchChoices:
    """Job: get the choices behind a value that others prevoted. Answered by ChoicesFetched."""

    value: DecisionId
    holders: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Verify, persist and announce a decided height. Answered by Adopted."""

    record: Record


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop voting for good and say why: the operator must look."""

    why: str


Job = FetchUpdate | FetchOuter | Inspect | Merge | Evaluate | FetchChoices
Effect = Remember | Publish | Adopt | Halt | Job


def remember_once(effects: list[Effect]) -> list[Effect]:
    """What is remembered last holds all before it: once stored, it stands behind each message between them."""
    last = {each.height: each for each in effects if isinstance(each, Remember)}
    found: list[Effect] = []
    for each in effects:
        if not isinstance(each, Remember):
            found.append(each)
        elif (newest := last.pop(each.height, None)) is not None:
            found.append(newest)
    return found
