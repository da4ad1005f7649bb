"""How fast bytes flow on each link: totals looked at now and then. Seconds, bytes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from p2pd.core.ids import PeerId
from p2pd.io.overlay import LinkCounters

SAMPLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Flow:
    sent_bytes: int
    received_bytes: int
    sent_bytes_s: float
    received_bytes_s: float
    """Over the last whole sample."""


class Rates:
    def __init__(self, counters: Callable[[], Mapping[PeerId, LinkCounters]]) -> None:
        self._counters = counters
        self._before: Mapping[PeerId, LinkCounters] = {}
        self._speeds: dict[PeerId, tuple[float, float]] = {}
        self.most: tuple[float, float] = (0.0, 0.0)
        """Sent and received over all links together, in the sample that had most of it."""

    async def run(self) -> None:
        before_s = trio.current_time()
        while True:
            await trio.sleep(SAMPLE_S)
            now_s = trio.current_time()
            self.sample(now_s - before_s)
            before_s = now_s

    def sample(self, elapsed_s: float) -> None:
        """Takes the totals as they are now, elapsed_s after the last time."""
        now = dict(self._counters())
        nothing = LinkCounters(0, 0)
        self._speeds = {}
        for peer, total in now.items():
            old = self._before.get(peer, nothing)
            if old.sent_bytes > total.sent_bytes or old.received_bytes > total.received_bytes:
                old = nothing  # a new connection counts from zero
            self._speeds[peer] = (
                (total.sent_bytes - old.sent_bytes) / elapsed_s,
                (total.received_bytes - old.received_bytes) / elapsed_s,
            )
        self._before = now
        sent, received = (sum(speed[way] for speed in self._speeds.values()) for way in (0, 1))
        self.most = max(self.most[0], sent), max(self.most[1], received)

    def flows(self) -> dict[PeerId, Flow]:
        return {
            peer: Flow(total.sent_bytes, total.received_bytes, *self._speeds.get(peer, (0.0, 0.0)))
            for peer, total in self._counters().items()
        }
