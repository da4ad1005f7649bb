"""Virtual time: it stands still while anything runs, and is as late as somebody wants it once all tasks wait. Seconds.

Besides tasks, which sleep, actions happen at a time: a message that arrives costs no task and no cancel scope. Each
node's monotonic clock may run fast or slow, and says something else than the true time: trio's time is that of the node
whose code asks for it. This module and `run`, which sees to deadlines, are the only ones that look behind trio's
public face.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, ulp
from typing import cast

import trio
import trio._core._run as trio_scheduler

Action = Callable[[], None]

SKEW_MOST = 0.01
"""A clock gains or loses no more than this share: a hundred times what a working quartz does."""


@dataclass(frozen=True, slots=True)
class Skew:
    """A monotonic clock: how fast it runs, and what it says when the true one says 0."""

    rate: float = 1.0
    origin_s: float = 0.0

    def shown_s(self, true_s: float) -> float:
        return self.origin_s + true_s * self.rate

    def true_s(self, shown_s: float) -> float:
        """When this clock says so, or a very little later: never before."""
        if shown_s == inf:
            return inf
        return (shown_s - self.origin_s + 2 * ulp(shown_s)) / self.rate


TRUE = Skew()
KEPT: ContextVar[Skew] = ContextVar("skew", default=TRUE)
"""The clock that tasks go by; those that they start inherit it."""


class VirtualClock(trio.abc.Clock):
    def __init__(self) -> None:
        self.true_s = 0.0
        self._agenda: list[tuple[float, int, Action]] = []
        self._posted = 0

    def start_clock(self) -> None:
        """There is nothing to start."""

    def current_time(self) -> float:
        skew = KEPT.get()
        return self.true_s if skew is TRUE else skew.shown_s(self.true_s)

    def post(self, at_s: float, action: Action) -> None:
        """Lets action happen at that true time, outside of any task. It must not block, and not raise."""
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
                self.true_s = max(self.true_s, at_s)
                action()
            elif deadline == inf:
                return inf
            else:
                self.true_s = max(self.true_s, deadline)
                break
        return 0.0


def virtual_clock() -> VirtualClock:
    """Of this run."""
    return cast("VirtualClock", trio.lowlevel.current_clock())  # whoever simulates runs in it


def true_now_s() -> float:
    """Whatever clock the caller goes by."""
    return virtual_clock().true_s


async def pause(seconds: float) -> None:
    """As trio.sleep, in true time, at less than half of its cost: what a simulated device takes, a thousand times.

    Devices are lent to what runs on another clock as well, and sleep there.
    """
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, VirtualClock):
        await trio.sleep(seconds)
        return
    waiting = [trio.lowlevel.current_task()]

    def go_on() -> None:
        if waiting:
            trio.lowlevel.reschedule(waiting.pop())

    def give_up(_: object) -> trio.lowlevel.Abort:
        waiting.clear()
        return trio.lowlevel.Abort.SUCCEEDED

    clock.post(clock.true_s + seconds, go_on)
    await trio.lowlevel.wait_task_rescheduled(give_up)
