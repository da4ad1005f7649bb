"""How long to rest after something that fails again and again. Seconds.

Without it a trainer would have the network decide one empty window after the other, as fast as it can, and a
validator would start one process after the other.
"""

from dataclasses import dataclass

from p2pd.core.backoff import DOUBLINGS_MAX


@dataclass(slots=True)
class Rest:
    first_s: float
    """After the second failure in a row; it doubles with each further one."""
    most_s: float
    failures: int = 0
    """In a row."""
    until_s: float = 0.0

    def is_on(self, now_s: float) -> bool:
        return now_s < self.until_s

    def went_well(self) -> None:
        self.failures = 0

    def failed(self, now_s: float) -> None:
        """No rest after the first failure: the next time all may be well."""
        self.failures += 1
        if self.failures > 1:
            doublings = min(self.failures - 2, DOUBLINGS_MAX)
            self.until_s = now_s + min(self.most_s, self.first_s * 2.0**doublings)
