"""How a link treats what it carries, and the dice that decide it. Shares are from 0 to 1."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaults:
    loss: float = 0.0
    """Share of control messages that never arrive; requests and dials come later instead."""
    duplication: float = 0.0
    """Share of control messages that arrive twice."""
    reordering: float = 0.0
    """Share of control messages that later ones may overtake."""
    failure: float = 0.0
    """Share of requests and dials that end as unreachable."""
    delay_min_s: float = 0.005
    delay_max_s: float = 0.05
    rate_bytes_s: float = 50e6
    """A response takes its size over this, besides the delay."""

    def __post_init__(self) -> None:
        for share in (self.loss, self.duplication, self.reordering, self.failure):
            if not 0 <= share <= 1:
                raise ValueError(f"a share must be from 0 to 1, got {share}")
        if not 0 < self.delay_min_s <= self.delay_max_s:
            raise ValueError("delays must be positive, the least one first")
        if self.rate_bytes_s <= 0:
            raise ValueError(f"rate_bytes_s must be positive, got {self.rate_bytes_s}")


@dataclass(frozen=True, slots=True)
class Partition:
    """Two groups of nodes, by name, that do not hear of each other."""

    left: frozenset[str]
    right: frozenset[str]
    one_way: bool = False
    """Only what left sends to right is swallowed."""

    def blocks(self, source: str, target: str) -> bool:
        if source in self.left and target in self.right:
            return True
        return not self.one_way and source in self.right and target in self.left


class Fate(NamedTuple):
    """What happens to one message, request or dial."""

    lost: bool
    failed: bool
    overtaken: bool
    delay_s: float
    again_s: float | None
    """Delay of the second copy, if there is one."""


class LinkDice:
    """Draws for one direction of one link: traffic on others never shifts its luck."""

    def __init__(self, seed: int, source: str, target: str) -> None:
        self._draw = Random(f"{seed}/{source}/{target}").random

    def throw(self, faults: LinkFaults) -> Fate:
        # Always six draws, so that other shares change single fates and not all that follow.
        draw = self._draw
        lost, failed, doubled, overtaken = draw(), draw(), draw(), draw()
        least_s, range_s = faults.delay_min_s, faults.delay_max_s - faults.delay_min_s
        delay_s, again_s = least_s + range_s * draw(), least_s + range_s * draw()
        return Fate(
            lost < faults.loss,
            failed < faults.failure,
            overtaken < faults.reordering,
            delay_s,
            delay_s + again_s if doubled < faults.duplication else None,
        )
