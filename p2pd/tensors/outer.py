"""The outer optimizer: from the base and the mean step of a cohort to the next head.

v' = f32(mu v + g); SGD moves by lr v', without momentum by lr g; Nesterov by lr (g + mu v').
The velocity v is an artifact of its own, float32, certified with the head. All of it is float64
multiplication and addition, each rounded on its own. What would overflow stays at the largest value
of its type: certified state can always be read again.
Source: Sutskever et al., "On the importance of initialization and momentum", 2013; DiLoCo, arXiv 2311.08105.
"""

from dataclasses import dataclass

import numpy as np

from p2pd.core.work import MILLION, OuterRule
from p2pd.tensors.formats import MAGNITUDE_MAX, Values, decode, encode

LARGEST = {
    "F64": MAGNITUDE_MAX,
    "F32": (2.0**24 - 1) * 2.0**104,
    "F16": 65504.0,
    "BF16": 255 * 2.0**120,
}


@dataclass(frozen=True, slots=True)
class OuterStep:
    head: Values
    """Not rounded to the model's type yet, but within its range."""
    velocity: Values
    """Values of float32."""


@dataclass(frozen=True, slots=True)
class Momentum:
    lr: float
    momentum: float
    nesterov: bool

    def step(self, base: Values, moved: Values, velocity: Values, dtype: str) -> OuterStep:
        """moved is the mean step of the cohort, g; dtype that of the model's tensor."""
        gathered = velocity * self.momentum + moved
        following = decode(encode(within(gathered, "F32"), "F32"), "F32")
        direction = following if self.momentum else moved
        if self.nesterov:
            direction = moved + following * self.momentum
        return OuterStep(within(base + direction * self.lr, dtype), following)


def optimizer_of(rule: OuterRule) -> Momentum | None:
    """None for the mean: the merged values are the head, to the bit."""
    if rule.name == "mean":
        return None
    return Momentum(rule.lr / MILLION, rule.momentum / MILLION, rule.name == "nesterov")


def within(values: Values, dtype: str) -> Values:
    limit = LARGEST[dtype]
    return np.maximum(np.minimum(values, limit), -limit)
