"""Says whether it is time to speak of something again that happens all the time. Seconds."""

from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class Seldom:
    every_s: float
    _quiet_until_s: float = -inf
    _left_out: int = 0

    def due(self, now_s: float) -> int | None:
        """To be asked each time. None: leave it out; else how many were left out since the last that was not."""
        if now_s < self._quiet_until_s:
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        self._quiet_until_s = now_s + self.every_s
        return left_out
