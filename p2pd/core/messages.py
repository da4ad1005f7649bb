"""What trainers, reducers and validators sign about one window, beside their votes."""

from dataclasses import dataclass
from enum import IntEnum

from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import ID_BYTES, ArtifactId, DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import COUNT_MAX, FULL, Figure, Merged, Verdict, require_figures


class Service(IntEnum):
    """What a peer offers to do in the next window."""

    TRAIN = 1
    REDUCE = 2


@dataclass(frozen=True, slots=True)
class Beacon:
    """Presence: I am here while the height of the scope is decided, and will serve in the next window."""

    service: Service


@dataclass(frozen=True, slots=True)
class Leave:
    """I leave: do not wait for my lease of the scope's height, and do not count on my presence there.

    Nor wait for a lease of the next height, which that presence may have brought, unless I show myself again.
    """


TOOK_MOST_MS = 100 * 86_400_000


@dataclass(frozen=True, slots=True)
class Update:
    """A trainer's candidate: the result of its lease in the plan of the scope's height."""

    plan: DecisionId
    """The decision that dealt the lease."""
    base: ArtifactId
    """The head that it started from: the plan's base, or an earlier one that the plan names."""
    artifact: ArtifactId
    size_bytes: int
    samples: int
    steps: int
    took_ms: int = 0
    """What training took its worker; 0: not said. Moves the length of its author's next lease, and nothing else. Not
    by the clock from plan to update: a restart between them must not change the id of an update."""

    def __post_init__(self) -> None:
        if not 0 <= self.took_ms <= TOOK_MOST_MS:
            raise ValueError("a lease takes at most a hundred days")
        if not (0 < self.samples <= COUNT_MAX and 0 < self.steps <= COUNT_MAX):
            raise ValueError("an update has samples and steps")
        if self.size_bytes <= 0 or len(self.artifact) != ID_BYTES:
            raise ValueError("an update names an artifact and its size")


@dataclass(frozen=True, slots=True)
class Release:
    """A trainer gives its lease of the scope's height back."""

    plan: DecisionId
    reason: str

    def __post_init__(self) -> None:
        if len(self.reason) > 500:
            raise ValueError("a reason has at most 500 characters")


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reducer's merge of a cohort: never authoritative."""

    plan: DecisionId
    inputs: bytes
    """Hash of the merge inputs: updates, artifacts, weights."""
    merged: Merged


@dataclass(frozen=True, slots=True)
class Report:
    """What a validator measured of a head on the whole validation set; shown, never decided on."""

    head: ArtifactId
    metric: int
    """Millionths."""
    loss: int
    """Millionths."""
    samples: int
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        require_figures(self.figures)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One update of a cohort, with what the proposer found."""

    update: Signed[Update]
    verdict: Verdict
    r: int
    """Judged quality, 0..FULL in steps of 128; FULL until screening by loss exists."""

    def __post_init__(self) -> None:
        if self.r != FULL:
            raise ValueError(f"r must be {FULL}")


class ChoiceKind(IntEnum):
    WINDOW = 1
    """Merge the accepted cohort; without any, keep the head."""
    IDLE = 2
    """Nobody had a lease: only deal the next plan."""
    BLOCKED = 3
    """The merge regressed on the canaries of validators of weight a: keep the head."""
    UNDECIDED = 4
    """The fall-back that every validator derives alike."""
    REACHED = 5
    """The head that the window starts from reaches the target: keep it, the run is over."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a proposer is free to choose. All else is derived from it and from the decision before."""

    kind: ChoiceKind
    cohort: tuple[Candidate, ...]
    """Ascending by update id, one per lease."""
    presence: tuple[Signed[Beacon], ...]
    """Ascending by peer id."""
    reductions: tuple[Signed[Reduction], ...]
    """Of the window before, ascending by peer id."""
    evidence: tuple[Evidence, ...]
    grounds: tuple[Signed[Vote], ...]
    """Nil prevotes of earlier rounds of this height that justify what is disputed or blocked."""
    governance: tuple[SignedGovernance, ...] = ()
    """The next records of the log, in order."""


def accusation(evidence: Evidence) -> Signed[Vote] | Signed[Proposal]:
    """One of the two messages: it names the accused and the place."""
    return evidence.votes[0] if evidence.votes else evidence.proposals[0]
