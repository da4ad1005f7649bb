"""Runs async code in virtual time, the same way every time for the same seed.

Threads, files and subprocesses have no place in here: the clock jumps as soon as all tasks wait, as
they do while something happens outside. No other module touches trio's private scheduler.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, cast

import trio
import trio._core._run as trio_scheduler

from p2pd.errors import LocalError
from p2pd.sim.clock import KEPT, TRUE, VirtualClock

TURNS_PER_INSTANT = 100_000
"""More turns than this while time stands still is a spin: busy fleets take a few thousand. Even."""

LOOK_TURNS = 64
"""Between two looks at what comes from outside."""


class Deadlines(trio_scheduler.Deadlines):
    """Trio's, where each deadline comes when the clock of who set it says so."""

    def __init__(self, guard: "NoProgress") -> None:
        super().__init__()
        self._guard = guard
        self._rows: list[tuple[float, int, float, trio.CancelScope]] = []
        """True time, number, time as it was set, scope."""
        self._added = 0

    def add(self, deadline: float, cancel_scope: trio.CancelScope) -> None:
        skew = KEPT.get()
        true_s = deadline if skew is TRUE else skew.true_s(deadline)
        self._added += 1
        heappush(self._rows, (true_s, self._added, deadline, cancel_scope))
        self._active += 1

    def next_deadline(self) -> float:
        while self._rows:
            true_s, _, deadline, scope = self._rows[0]
            if deadline == scope._registered_deadline:
                return true_s
            heappop(self._rows)
        return inf

    def expire(self, now: float) -> bool:
        """Called once a turn, in which each task that can run makes a step."""
        self._guard.turn()
        expired = False
        while self._rows and self._rows[0][0] <= now:
            _, _, deadline, scope = heappop(self._rows)
            if deadline == scope._registered_deadline:
                expired = True
                scope._cancel(trio_scheduler.CancelReason(source="deadline"))
        if len(self._rows) > self._active * 2 + trio_scheduler.DEADLINE_HEAP_MIN_PRUNE_THRESHOLD:
            self._drop_stale()
        return expired

    def _drop_stale(self) -> None:
        """Rows of scopes that are over, or have another deadline by now; of equal ones the first stays."""
        latest = {
            id(row[3]): row for row in reversed(self._rows) if row[2] == row[3]._registered_deadline
        }
        self._rows = list(latest.values())
        heapify(self._rows)


class SeldomLooking:
    """Trio's view of the outside, where nothing happens that a simulation waits for: only Ctrl-C comes from there.

    To ask the kernel each turn takes as long as many a step of a task.
    """

    def __init__(self, manager: Any) -> None:  # noqa: ANN401 - of the system that this runs on
        self._manager = manager
        self._turns = 0
        self.process_events = manager.process_events
        self.wait_readable = manager.wait_readable
        self.wait_writable = manager.wait_writable
        self.notify_closing = manager.notify_closing
        self.force_wakeup = manager.force_wakeup
        self.statistics = manager.statistics
        self.close = manager.close

    def get_events(self, timeout: float) -> list[tuple[int, int]]:
        self._turns += 1
        if timeout == 0 and self._turns % LOOK_TURNS:
            return []
        return cast("list[tuple[int, int]]", self._manager.get_events(timeout))


class Suspects(trio.abc.Instrument):
    """Counts the steps of tasks by name."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps[task.name] += 1


class NoProgress:
    """Cancels the run when tasks keep running but time stands still.

    It looks once a turn: at each step it would cost more than many a step itself. Only in the second half of what is
    allowed tasks are counted by name.
    """

    def __init__(self, scope: trio.CancelScope, clock: VirtualClock, turns_max: int) -> None:
        self.culprit: str | None = None
        self._clock = clock
        self._scope = scope
        self._turns_max = turns_max
        self._now_s = -1.0
        self._turns = 0
        self._suspects: Suspects | None = None

    def turn(self) -> None:
        if self._clock.true_s != self._now_s:
            self._now_s, self._turns = self._clock.true_s, 0
            if self._suspects is not None:
                trio.lowlevel.remove_instrument(self._suspects)
                self._suspects = None
        self._turns += 1
        if self._turns * 2 == self._turns_max:
            self._suspects = Suspects()
            trio.lowlevel.add_instrument(self._suspects)
        if self._turns == self._turns_max and self._suspects is not None:
            name, _ = self._suspects.steps.most_common(1)[0]
            self.culprit = f"{name} spins at t={self._now_s:g} s"
            self._scope.cancel()


def run_seeded(
    seed: int,
    main: Callable[[], Awaitable[None]],
    until_s: float,
    *,
    turns_max: int = TURNS_PER_INSTANT,
) -> bool:
    """Runs main for at most until_s virtual seconds. True if main ended, False if time cut it off.

    Raises:
        LocalError: a task spins, so that virtual time stands still; seed and task are named.
    """

    async def bounded() -> tuple[bool, str | None]:
        scope = trio.CancelScope()
        guard = NoProgress(scope, clock, turns_max)
        runner = trio_scheduler.GLOBAL_RUN_CONTEXT.runner
        runner.deadlines = Deadlines(guard)
        runner.io_manager = SeldomLooking(runner.io_manager)  # type: ignore[assignment]
        scope.deadline = trio.current_time() + until_s
        with scope:
            await main()
        return not scope.cancelled_caught, guard.culprit

    clock = VirtualClock()
    trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_scheduler._r.seed(seed)
    finished, culprit = trio.run(bounded, clock=clock)
    if culprit is not None:
        raise LocalError(f"seed {seed}: {culprit}")
    return finished
