"""How late the event loop comes to its tasks, and who holds it up. Seconds.

A task asks for the time at intervals; as long as it comes, it keeps putting off an alarm of the kernel
(setitimer). The alarm interrupts whatever holds up the loop, so that its stack can be logged at once and
without a thread. A long call into C is interrupted when it returns.
"""

import logging
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import trio

from p2pd.core.health import Health

log = logging.getLogger("p2pd.watchdog")

BEAT_S = 0.5
BEATS = 240
"""Two minutes: what the lag is taken from, and how long a stall counts as a trouble."""
SOURCE = "event loop"


@dataclass(frozen=True, slots=True)
class Lag:
    """Over the last two minutes."""

    p99_s: float
    most_s: float


class Watchdog:
    def __init__(self, stall_s: float, health: Health) -> None:
        """stall_s: how late counts as a stall."""
        self._stall_s = stall_s
        self._health = health
        self._beats: deque[float] = deque(maxlen=BEATS)
        self._culprit = ""
        self._troubled_until_s = -1.0

    def lag(self) -> Lag:
        late = sorted(self._beats)
        return Lag(late[len(late) * 99 // 100], late[-1]) if late else Lag(0.0, 0.0)

    async def run(self) -> None:
        """In the main thread, until cancelled."""
        with self._listening():
            while True:
                due_s = trio.current_time() + BEAT_S
                signal.setitimer(signal.ITIMER_REAL, BEAT_S + self._stall_s)
                await trio.sleep_until(due_s)
                self._beat(trio.current_time() - due_s)

    def _beat(self, late_s: float) -> None:
        self._beats.append(late_s)
        now_s = trio.current_time()
        if late_s >= self._stall_s:
            culprit, self._culprit = self._culprit or "what cannot be told", ""
            log.warning("the event loop goes on after %.1f s", late_s)
            self._health.note(SOURCE, f"was held up for {late_s:.1f} s by {culprit}")
            self._troubled_until_s = now_s + BEATS * BEAT_S
        elif 0.0 <= self._troubled_until_s <= now_s:
            self._troubled_until_s = -1.0
            self._health.clear(SOURCE)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._alarm)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        self._culprit = _task_name()
        what = "%s holds up the event loop for more than %g s"
        log.error(what, self._culprit, self._stall_s, stack_info=True)


def _task_name() -> str:
    try:
        return f"task {trio.lowlevel.current_task().name}"
    except RuntimeError:
        return "the scheduler"
