"""Tells a node's owner now and then what was decided: one line for many heights. Seconds."""

from collections.abc import Callable

import trio

from p2pd.core.decision import Decision, Outcome, PlanState
from p2pd.core.ids import short
from p2pd.core.wording import counted
from p2pd.core.work import MILLION
from p2pd.node.lane import Lane
from p2pd.node.lineage import last_measured, metric_of, tally

EVERY_S = 10.0
"""Between two lines at least."""
SETTLE_S = 2.0
"""Of that, for the measurements of the newest head to come in."""

Tell = Callable[[str], None]


class Diary:
    def __init__(self, lane: Lane, tell: Tell) -> None:
        self._lane = lane
        self._tell = tell
        self._told: int | None = None
        """Height of the last line; None before the first one."""

    async def run(self) -> None:
        """Until cancelled."""
        lane, first = self._lane, self._lane.decision
        self._tell_end(first)
        seen = first.height
        while True:
            if lane.decision.height == seen:
                await lane.moved.wait()
                continue
            await trio.sleep(SETTLE_S)
            seen = lane.decision.height
            self._tell_newest(lane.decision)
            self._tell_end(lane.decision)
            await trio.sleep(EVERY_S - SETTLE_S)

    def _tell_newest(self, decision: Decision) -> None:
        height, counts = decision.height, tally(decision)
        promoted = decision.header.outcome is Outcome.PROMOTED
        head = short(decision.head)
        line = f"height {height}: {decision.header.outcome.text}"
        line += f" {head}" if promoted else f", the head is {head}"
        line += self._metric(decision)
        if counts.accepted or counts.rejected:
            line += f", {counted(counts.accepted, 'update')}"
        if counts.rejected:
            line += f", {counts.rejected} more not accepted"
        if self._told is not None:
            line += f"; {counted(height - self._told, 'decision')} since the last such line"
        self._told = height
        self._tell(line)

    def _metric(self, decision: Decision) -> str:
        """With its height where it is of an earlier one: a head is measured once."""
        name = self._lane.setting.revision.workload.metric
        metric = metric_of(self._lane.chronicle, decision)
        if metric is not None:
            return f", {name} {metric / MILLION:.4f}"
        earlier = last_measured(self._lane.chronicle)
        return f", {name} {earlier[1] / MILLION:.4f} at height {earlier[0]}" if earlier else ""

    def _tell_end(self, decision: Decision) -> None:
        if decision.state.plan.state is PlanState.FINISHED:
            self._tell(
                f"the revision has come to its end at height {decision.height},"
                f" with head {short(decision.head)}"
            )
