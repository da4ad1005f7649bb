"""What weight suffices for what. Weights are integers.

Source: docs/decision-protocol.md, section 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    weight: int
    """Of the whole validator set, suspended keys included."""
    quorum: int

    def __post_init__(self) -> None:
        if not self.weight < 2 * self.quorum <= 2 * self.weight:
            raise ValueError(
                f"quorum must be above half of the weight {self.weight} and at most all of it, "
                f"got {self.quorum}"
            )

    @property
    def attention(self) -> int:
        """More than any rule-breaking weight under which progress is promised."""
        return min(2 * self.quorum - self.weight, self.weight - self.quorum + 1)

    @property
    def crashed_max(self) -> int:
        """Weight that may be unreachable while the rest still decides."""
        return self.weight - self.quorum

    @property
    def lying_max(self) -> int:
        """Weight that may break the rules while no two decisions can be certified."""
        return 2 * self.quorum - self.weight - 1


@dataclass(frozen=True, slots=True)
class Survival:
    """How many validators, whichever they are, may fail. The allowances do not add up."""

    crashes: int
    """These may be unreachable, nobody lying, and heights still end."""
    liars_safe: int
    """These may lie, and still at most one decision is certified."""
    liars_live: int
    """These may lie, and heights still end."""
    halting: tuple[int, ...]
    """Positions of validators that alone can halt the network."""
    deciding: tuple[int, ...]
    """Positions of validators that alone decide."""


def survival(weights: Sequence[int], quorum: int) -> Survival:
    """What a set of these weights withstands. Raises ValueError for an impossible quorum."""
    thresholds = Thresholds(sum(weights), quorum)
    return Survival(
        crashes=_heaviest_within(weights, thresholds.crashed_max),
        liars_safe=_heaviest_within(weights, thresholds.lying_max),
        liars_live=_heaviest_within(weights, min(thresholds.lying_max, thresholds.crashed_max)),
        halting=tuple(n for n, weight in enumerate(weights) if weight > thresholds.crashed_max),
        deciding=tuple(n for n, weight in enumerate(weights) if weight >= quorum),
    )


def _heaviest_within(weights: Sequence[int], limit: int) -> int:
    """How many of the heaviest weigh at most limit together: then any as many do."""
    total = 0
    for count, weight in enumerate(sorted(weights, reverse=True)):
        total += weight
        if total > limit:
            return count
    return len(weights)


def fewest_with(weights: Sequence[int], quorum: int) -> int:
    """The least number of members that weigh the quorum; all of them if they never do."""
    total = 0
    for count, weight in enumerate(sorted(weights, reverse=True), start=1):
        total += weight
        if total >= quorum:
            return count
    return len(weights)
