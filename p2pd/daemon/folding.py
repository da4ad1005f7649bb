"""Says what is logged again and again a few times, and then how often: no peer can fill a disk. Seconds.

Messages are alike when one place in the code writes them: what others can trigger without end differs in
names and numbers, and comes from few places.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

BURST = 10
"""Messages of one place that are written in a period, all different; the rest is counted."""
UNFOLDED = "p2pd.workload"
"""What the owner's own workload prints is his: it has a file of its own, whose size bounds it."""

Place = tuple[str, int, str, int]


@dataclass(slots=True)
class _Period:
    until_s: float
    said: set[str] = field(default_factory=set)
    folded: int = 0
    last: logging.LogRecord | None = None


class Folding(logging.Handler):
    """In front of the handlers that write."""

    def __init__(
        self,
        targets: tuple[logging.Handler, ...],
        unfolded: tuple[logging.Handler, ...],
        period_s: float,
        now_s: Callable[[], float],
    ) -> None:
        """period_s: a message is written again, and those that were not are counted, after so long."""
        logging.Handler.__init__(self)
        self._targets = targets
        self._unfolded = unfolded
        self._period_s = period_s
        self._now_s = now_s
        self._periods: dict[Place, _Period] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == UNFOLDED:
            for target in self._unfolded:
                target.handle(record)
            return
        self.tell(all_of_it=False)
        place = (record.name, record.levelno, record.pathname, record.lineno)
        period = self._periods.get(place)
        if period is None:
            period = self._periods[place] = _Period(self._now_s() + self._period_s)
        text = record.getMessage()
        if text in period.said or len(period.said) >= BURST:
            period.folded, period.last = period.folded + 1, record
        else:
            period.said.add(text)
            self._write(record)

    async def run(self) -> None:
        """Tells of what was left out when nothing more is logged, until cancelled."""
        while True:
            await trio.sleep(self._period_s)
            self.tell(all_of_it=False)

    def tell(self, *, all_of_it: bool) -> None:
        """Writes how many were left out in periods that are over, or in all."""
        now_s = self._now_s()
        over = [
            place for place, period in self._periods.items() if all_of_it or period.until_s <= now_s
        ]
        for place in over:
            period = self._periods.pop(place)
            if period.last is not None:
                self._write(_counted(period.last, period.folded))

    def close(self) -> None:
        self.tell(all_of_it=True)
        for target in {*self._targets, *self._unfolded}:
            target.close()
        logging.Handler.close(self)

    def _write(self, record: logging.LogRecord) -> None:
        for target in self._targets:
            target.handle(record)


def _counted(last: logging.LogRecord, folded: int) -> logging.LogRecord:
    record = logging.makeLogRecord(last.__dict__)
    record.msg, record.args, record.exc_info = (
        f"{folded} more like this: {last.getMessage()}",
        (),
        None,
    )
    return record
