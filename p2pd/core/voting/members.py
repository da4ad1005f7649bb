"""Whose votes count at one height, and who proposes.

Source: docs/decision-protocol.md, sections 1, 4 and 7.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from p2pd.core.ids import PeerId, PublicKey
from p2pd.core.voting.thresholds import Thresholds, fewest_with


@dataclass(frozen=True, slots=True)
class Member:
    peer: PeerId
    key: PublicKey
    weight: int


@dataclass(frozen=True)
class Members:
    """The validator set of a height less its suspended keys, which still count in the thresholds."""

    thresholds: Thresholds
    rows: tuple[Member, ...]
    """Ascending by peer id, not suspended; at least one."""

    @classmethod
    def of(
        cls, rows: Iterable[Member], quorum: int, suspended: Collection[PublicKey] = ()
    ) -> "Members":
        """Raises ValueError: impossible quorum, a key twice, a weight below 1, or nobody left."""
        everyone = sorted(rows, key=lambda member: member.peer)
        if len({member.key for member in everyone}) != len(everyone):
            raise ValueError("a validator's key is listed twice")
        if any(member.weight < 1 for member in everyone):
            raise ValueError("a validator's weight must be at least 1")
        thresholds = Thresholds(sum(member.weight for member in everyone), quorum)
        left = tuple(member for member in everyone if member.key not in suspended)
        if not left:
            raise ValueError("every validator is suspended")
        return cls(thresholds, left)

    @cached_property
    def quorum(self) -> int:
        return self.thresholds.quorum

    @cached_property
    def attention(self) -> int:
        return self.thresholds.attention

    @cached_property
    def weights(self) -> dict[PublicKey, int]:
        return {member.key: member.weight for member in self.rows}

    @cached_property
    def positions(self) -> dict[PublicKey, int]:
        return {member.key: position for position, member in enumerate(self.rows)}

    @cached_property
    def total(self) -> int:
        """Weight of those that are not suspended."""
        return sum(member.weight for member in self.rows)

    @cached_property
    def undecided_round(self) -> int:
        """F: from this round on only the undecided decision may be proposed afresh."""
        count = len(self.rows)
        fewest = fewest_with([member.weight for member in self.rows], self.quorum)
        return count + (count - fewest) + 1

    def proposer(self, height: int, round_: int) -> Member:
        return self.rows[(height + round_) % len(self.rows)]
