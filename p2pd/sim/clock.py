"""Virtual time: it stands still while anything runs, and is as late as somebody wants it once all tasks wait. Seconds.

Besides tasks, which sleep, actions happen at a time: a message that arrives costs no task and no cancel scope. This
module and `run` are the only ones that look behind trio's public face.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

import trio
import trio._core._run as trio_scheduler

Action = Callable[[], None]


class VirtualClock(trio.abc.Clock):
    def __init__(self) -> None:
        self._now_s = 0.0
        self._agenda: list[tuple[float, int, Action]] = []
        self._posted = 0

    def start_clock(self) -> None:
        """There is nothing to start."""

    def current_time(self) -> float:
        return self._now_s

    def post(self, at_s: float, action: Action) -> None:
        """Lets action happen at that time, outside of any task. It must not block, and not raise."""
        self._posted += 1
        heappush(self._agenda, (at_s, self._posted, action))

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Trio asks this once no task can run: time goes on until one can."""
        runner = trio_scheduler.GLOBAL_RUN_CONTEXT.runner
        if runner.waiting_for_idle:
            return inf  # somebody wants to see everybody wait: no time passes for that
        while not runner.runq:
            deadline = runner.deadlines.next_deadline()
            if self._agenda and self._agenda[0][0] <= deadline:
                at_s, _, action = heappop(self._agenda)
                self._now_s = max(self._now_s, at_s)
                action()
            elif deadline == inf:
                return inf
            else:
                self._now_s = max(self._now_s, deadline)
                break
        return 0.0


def post(at_s: float, action: Action) -> None:
    """On the clock of this run."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, VirtualClock)  # whoever simulates runs in virtual time
    clock.post(at_s, action)
