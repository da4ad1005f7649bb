"""The outer optimizer: from the base and the merged values to the next head.

Optimizers with momentum keep state, an artifact of its own, which is merged in step with the head.
"""

from dataclasses import dataclass
from typing import Protocol

from p2pd.tensors.formats import Values


@dataclass(frozen=True, slots=True)
class OuterStep:
    head: Values
    state: Values | None
    """None for an optimizer that keeps none."""


class OuterOptimizer(Protocol):
    def step(self, base: Values, merged: Values, state: Values | None) -> OuterStep: ...


class OuterMean:
    """Learning rate 1, no momentum: the merged values are the head, to the bit."""

    def step(self, base: Values, merged: Values, state: Values | None) -> OuterStep:
        return OuterStep(merged, None)
