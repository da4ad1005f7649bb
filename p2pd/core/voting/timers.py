"""How long to wait for what. Units: seconds. Source: docs/decision-protocol.md, section 5."""

from collections import deque
from enum import IntEnum

GROWTH = 1.5
GROWTH_ROUNDS = 6
"""Rounds beyond this wait no longer."""
PROPOSE_MAX_S = 10.0
CHECK_MIN_S = 2.0
RECENT = 8
"""Finished checks that the next one is expected to be like; with fewer, the limit is waited for."""
CHECK_MARGIN = 3


class Timer(IntEnum):
    LISTEN = 0
    """After a start, before the first vote."""
    PROPOSE = 1
    CHECK = 2
    PREVOTE = 3
    PRECOMMIT = 4


def growth(round_: int) -> float:
    return float(GROWTH ** min(round_, GROWTH_ROUNDS))


def propose_timeout_s(round_: int) -> float:
    """Also for precommits."""
    return min(PROPOSE_MAX_S, growth(round_))


class CheckTimes:
    """How long my own checks took: one per revision, over all heights since the process started."""

    def __init__(self, limit_s: float) -> None:
        """limit_s: the revision's check_limit. Raises ValueError unless it is positive."""
        if limit_s <= 0:
            raise ValueError(f"the limit of a check must be positive, got {limit_s}")
        self.limit_s = limit_s
        self._recent_s: deque[float] = deque(maxlen=RECENT)

    def add(self, duration_s: float) -> None:
        self._recent_s.append(duration_s)

    def timeout_s(self, round_: int) -> float:
        if len(self._recent_s) < RECENT:
            return self.limit_s
        # The 95th percentile of eight is the largest.
        expected_s = max(CHECK_MIN_S, CHECK_MARGIN * max(self._recent_s))
        return min(self.limit_s, expected_s * growth(round_))
