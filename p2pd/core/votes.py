"""What validators say to each other about one height. Source: docs/decision-protocol.md, sections 3 and 7."""

from dataclasses import dataclass
from enum import IntEnum

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed

MAX_REASONS = 32
NO_ROUND = -1
MAX_ROUND = 2**31 - 1
"""No height comes near; whoever names a later round is not listened to."""


class Step(IntEnum):
    """Where a validator stands in a round; PREVOTE and PRECOMMIT are also the two kinds of vote."""

    IDLE = 0
    PROPOSE = 1
    PREVOTE = 2
    PRECOMMIT = 3


class ReasonKind(IntEnum):
    VERDICT = 1
    """I judge this update otherwise than the proposal does."""
    UNFETCHABLE = 2
    OMITTED = 3
    """I held this update, accepted, long before I closed."""
    ABSENT = 4
    """I held this trainer's beacon long before I closed."""
    CANARY = 5
    """The artifact regresses on my samples."""
    SLOW = 6
    IGNORED = 7
    """I held evidence against this validator, or this governance record, long before I closed."""
    TARGET = 8
    """I judge otherwise whether this head reaches the target."""


@dataclass(frozen=True, slots=True)
class Reason:
    kind: ReasonKind
    subject: bytes
    """An update id, a peer id or an artifact id; empty for SLOW."""
    code: int
    """A Verdict for VERDICT, otherwise 0."""


@dataclass(frozen=True, slots=True)
class Vote:
    step: Step
    round: int
    value: DecisionId | None
    """None is nil."""
    just: int
    """The round whose quorum of prevotes justifies this prevote; NO_ROUND for none, for nil and for precommits."""
    reasons: tuple[Reason, ...]
    """Only beside a nil prevote."""

    def __post_init__(self) -> None:
        if self.step not in (Step.PREVOTE, Step.PRECOMMIT):
            raise ValueError("a vote is a prevote or a precommit")
        if not 0 <= self.round <= MAX_ROUND:
            raise ValueError(f"a round is from 0 to {MAX_ROUND}")
        if not NO_ROUND <= self.just < self.round:
            raise ValueError("just must name an earlier round")
        if self.just != NO_ROUND and (self.step != Step.PREVOTE or self.value is None):
            raise ValueError("only a prevote for a value has a just")
        if self.reasons and (self.step != Step.PREVOTE or self.value is not None):
            raise ValueError("only a nil prevote has reasons")
        if len(self.reasons) > MAX_REASONS:
            raise ValueError(f"at most {MAX_REASONS} reasons")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Shows that a quorum decided: enough precommits of one round, the prevotes of that round, and their closure."""

    value: DecisionId
    round: int
    precommits: tuple[Signed[Vote], ...]
    prevotes: tuple[Signed[Vote], ...]
    """All prevotes for value that the counting rule needs, of this round and of those that their justs name."""
