"""The governance log: statements of the authority about its network, each naming the one before.

A network has one log. Every chain of decisions takes it in order, a few records at a time, and a record acts on a
chain from the decision that includes it. So far one thing can be said: that a run goes on for longer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NewType, Self

from p2pd.core.encoding import encode
from p2pd.core.genesis import Endorsement, Genesis
from p2pd.core.ids import ID_BYTES, NetworkId, RevisionId, digest
from p2pd.core.revision import Revision
from p2pd.core.work import Progress
from p2pd.errors import RemoteError

RecordId = NewType("RecordId", bytes)
"""Of a governance record: hash of what the authority signs."""
NUMBER_MOST = 2**53
"""Of records, heads and epochs: far more than any network will see."""
RECORDS_PER_DECISION = 4


class ActionKind(IntEnum):
    """Says which action a record holds, for those that come later."""

    EXTEND = 1


@dataclass(frozen=True, slots=True)
class Extend:
    """A revision ends later. An end that is lower than the one in force changes nothing."""

    revision: RevisionId
    end_heads: int | None
    """As in its schedule, 0 for never; None: as it is."""
    end_epochs: int | None
    target: int | None = None
    """Of the metric, millionths; None: as it is."""

    def __post_init__(self) -> None:
        given = [end for end in (self.end_heads, self.end_epochs) if end is not None]
        if not given and self.target is None:
            raise ValueError("an extension has an end: of heads, of epochs, or a target")
        if not all(0 <= end <= NUMBER_MOST for end in (*given, abs(self.target or 0))):
            raise ValueError(f"an end is a number from 0 to {NUMBER_MOST}")
        if len(self.revision) != ID_BYTES:
            raise ValueError("an extension names a revision")


@dataclass(frozen=True)
class GovernanceRecord:
    network: NetworkId
    number: int
    """From 1, without a gap."""
    previous: RecordId
    """The network's own id for the first one."""
    kind: ActionKind
    action: Extend

    def __post_init__(self) -> None:
        if not 0 < self.number <= NUMBER_MOST:
            raise ValueError("governance records are numbered from 1")

    @cached_property
    def id(self) -> RecordId:
        """What the authority signs."""
        return RecordId(digest("governance", encode(self)))


@dataclass(frozen=True, slots=True)
class SignedGovernance:
    """Exists only where each endorsement was verified to be its key's; whose keys they are is checked here."""

    record: GovernanceRecord
    endorsements: tuple[Endorsement, ...]
    """Ascending by key."""

    @property
    def place(self) -> "LogPlace":
        return LogPlace(self.record.number, self.record.id)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """How far a log goes."""

    number: int
    """Of its last record; 0 for none."""
    record: RecordId

    def takes(self, record: GovernanceRecord) -> bool:
        """Whether it is the next one."""
        return (record.number, record.previous) == (self.number + 1, self.record)


def beginning(network: NetworkId) -> LogPlace:
    return LogPlace(0, RecordId(network))


def check_endorsed(genesis: Genesis, signed: SignedGovernance) -> None:
    """Raises RemoteError: it is another network's, or too few of this one's authority signed it."""
    if signed.record.network != genesis.network:
        raise RemoteError("a governance record of another network")
    keys = [endorsement.key for endorsement in signed.endorsements]
    if keys != sorted(set(keys)) or not set(keys) <= set(genesis.authority):
        raise RemoteError("endorsements must be the authority's, ascending by key, each once")
    if len(keys) < genesis.threshold:
        raise RemoteError(
            f"a governance record with {len(keys)} of {genesis.threshold} endorsements"
        )


@dataclass(frozen=True, slots=True)
class Ends:
    """When a run ends; 0 for never."""

    heads: int
    epochs: int
    target: int | None = None
    """Of the metric, millionths; None for never."""

    @classmethod
    def of(cls, revision: Revision) -> Self:
        schedule = revision.schedule
        return cls(schedule.end_heads, schedule.end_epochs, schedule.target)

    def reached(self, progress: Progress) -> bool:
        return bool(
            (self.heads and progress.heads >= self.heads)
            or (self.epochs and progress.epoch >= self.epochs)
        )

    def extended(self, by: Extend, *, higher_is_better: bool) -> "Ends":
        target = self.target
        if target is not None and by.target is not None:
            target = (max if higher_is_better else min)(target, by.target)
        return Ends(_later(self.heads, by.end_heads), _later(self.epochs, by.end_epochs), target)


def _later(now: int, given: int | None) -> int:
    if given is None or now == 0:
        return now
    return 0 if given == 0 else max(now, given)


@dataclass(frozen=True, slots=True)
class Governed:
    """What a chain has taken of the log, and what is in force by it."""

    log: LogPlace
    ends: Ends
    reached: bool = False
    """A decision found that the head reaches the target in force."""

    def over(self, progress: Progress) -> bool:
        return self.reached or self.ends.reached(progress)

    def after(self, taken: Iterable[SignedGovernance], revision: Revision) -> "Governed":
        """Of records that were checked to be the next ones; those of other revisions are only counted."""
        governed, higher = self, revision.workload.higher_is_better
        for signed in taken:
            action, ends = signed.record.action, governed.ends
            if action.revision == revision.id:
                ends = ends.extended(action, higher_is_better=higher)
            reached = governed.reached and ends.target == governed.ends.target
            governed = Governed(signed.place, ends, reached)
        return governed
