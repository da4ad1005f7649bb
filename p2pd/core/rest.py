"""How long a trainer rests whose workload fails again and again, or whose data cannot be had. Seconds.

Without it the network would decide one empty window after the other, as fast as it can.
"""

from dataclasses import dataclass

from p2pd.core.backoff import DOUBLINGS_MAX

FIRST_S, MOST_S = 5.0, 300.0
"""After the second failure in a row, and at most; it doubles with each further one."""


@dataclass(slots=True)
class Rest:
    failures: int = 0
    """In a row."""
    until_s: float = 0.0

    def is_on(self, now_s: float) -> bool:
        return now_s < self.until_s

    def went_well(self) -> None:
        self.failures = 0

    def failed(self, now_s: float) -> None:
        """No rest after the first failure: the next lease may go well."""
        self.failures += 1
        if self.failures > 1:
            doublings = min(self.failures - 2, DOUBLINGS_MAX)
            self.until_s = now_s + min(MOST_S, FIRST_S * 2.0**doublings)
