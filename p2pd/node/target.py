"""A peer as one to dial. Seconds."""

from dataclasses import dataclass
from math import inf

DEAD_FAILURES = 3
"""A peer that failed so often in a row gives its place in the mesh to another."""


@dataclass(slots=True, eq=False)
class Target:
    lot: float
    """Lower ones are in the mesh; drawn once, so that the mesh is not shuffled by newcomers."""
    failures: int = 0
    """In a row."""
    ready_s: float = -inf
    shunned_until_s: float = -inf
    dialling: bool = False
    linked_s: float = inf
    outgoing: bool = False
    """This node dialled the link."""

    def order(self) -> tuple[bool, bool, float]:
        """Those with the lowest are in the mesh: dialled ones before others, dead ones last."""
        dead = self.linked_s == inf and self.failures >= DEAD_FAILURES
        return dead, not self.outgoing, self.lot

    def shun(self, until_s: float) -> None:
        self.failures = max(self.failures, DEAD_FAILURES)
        self.shunned_until_s = until_s
