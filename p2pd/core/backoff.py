"""How long to wait before the next attempt. Seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

DOUBLINGS_MAX = 32
"""More would only overflow: any cap is reached long before."""


def backoff_s(failures: int, dice: Random, *, base_s: float, most_s: float) -> float:
    """Anything between nothing and a cap that doubles with each failure in a row ("full jitter").

    Drawn over the whole range, so that those who failed together do not come back together.
    """
    return dice.uniform(0.0, min(most_s, base_s * 2.0 ** min(failures, DOUBLINGS_MAX)))
