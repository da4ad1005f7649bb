"""How far off this machine's wall clock is, by what its neighbours say. Milliseconds.

Only the dates of peer records rest on wall clocks; windows and leases go by each node's own
monotonic clock. So a wrong clock costs nobody any standing, but others no longer take this node's
address, and this node takes none of theirs: worth saying, and nothing else is done about it.
"""

import logging

from p2pd.core.ids import PeerId

log = logging.getLogger("p2pd.clock")

NOTICED_MS = 60_000
NEIGHBOURS_MOST = 32
"""The newest answers of so many neighbours count."""


class ClockWatch:
    def __init__(self) -> None:
        self._off_ms: dict[PeerId, int] = {}
        self._said = False

    def note(self, peer: PeerId, theirs_ms: int, ours_ms: int) -> None:
        """What a neighbour's clock said, and ours at about that time."""
        self._off_ms.pop(peer, None)
        self._off_ms[peer] = ours_ms - theirs_ms
        if len(self._off_ms) > NEIGHBOURS_MOST:
            del self._off_ms[next(iter(self._off_ms))]
        trouble = self.trouble()
        if trouble and not self._said:
            log.warning("%s", trouble)
        elif self._said and not trouble:
            log.info("clock skew is over")
        self._said = bool(trouble)

    def off_ms(self) -> int:
        """By how much this clock is ahead; negative if behind. The lower median, so that no minority decides."""
        values = sorted(self._off_ms.values(), key=abs)
        return values[(len(values) - 1) // 2] if values else 0

    def trouble(self) -> str:
        """One line for people; empty while the clock will do."""
        off_ms = self.off_ms()
        if abs(off_ms) < NOTICED_MS:
            return ""
        side = "ahead of" if off_ms > 0 else "behind"
        return (
            f"clock skew: this machine's clock is {_told(abs(off_ms))} {side} those of its"
            f" {len(self._off_ms)} neighbours: set it, or nobody learns this node's address"
        )


def _told(duration_ms: int) -> str:
    minutes = round(duration_ms / 60_000)
    if minutes < 120:
        return f"{minutes} min"
    return f"{round(minutes / 60)} h" if minutes < 48 * 60 else f"{round(minutes / 1440)} days"
