"""Scripts that drive this node's trainer: how they come, what they are told, and how they go. Seconds."""

from collections.abc import Iterator
from typing import Any

import trio

from p2pd.core.decision import Decision, Outcome
from p2pd.core.encoding import decode, encode
from p2pd.core.messages import Candidate, Choices
from p2pd.core.revision import Revision
from p2pd.core.work import MILLION, TrainResult, Verdict
from p2pd.errors import UsageError, WorkloadError
from p2pd.io.attached import AttachedWorker, Script
from p2pd.io.control import Upgrade
from p2pd.node.lane import Lane
from p2pd.node.lineage import metric_of
from p2pd.ports import Worker
from p2pd.workload.protocol import Call, Certified, Failure, Request

REPORTS_S = 2.0
"""How long the validators' reports on a new head are waited for."""
LOOK_S = 0.1


class Scripts:
    def __init__(self, worker: AttachedWorker, checked: Worker, lane: Lane, share: float) -> None:
        """checked: the same worker, which refuses another workload than the revision's."""
        self._worker = worker
        self._checked = checked
        self._lane = lane
        self._share = share

    def drive(self, request: dict[str, Any]) -> Upgrade:
        """A script wants to drive this trainer.

        Raises:
            UsageError: it means another experiment, or another one drives it already.
        """
        process, wanted = request.get("process"), request.get("experiment")
        revision = self._lane.setting.revision
        if not isinstance(process, int) or not isinstance(wanted, str):
            raise UsageError("a script names its process and the experiment: call p2pd.attach")
        if wanted not in ("", revision.experiment, f"{revision.study}/{revision.experiment}"):
            raise UsageError(
                f"this trainer works on {revision.study}/{revision.experiment}, not on {wanted!r:.80}"
            )
        self._worker.require_free()

        async def serve(stream: trio.SocketStream) -> None:
            script = Script(stream, process)
            try:
                self._worker.take(script)
            except UsageError:  # another one came between this one's question and its coming
                await script.leave()
                return
            try:
                await self._serve(script)
            finally:
                self._worker.end()

        return Upgrade(self._greeting(revision), serve)

    def _greeting(self, revision: Revision) -> dict[str, Any]:
        settings = self._worker.settings
        return {
            "module": settings.module,
            "paths": [str(path) for path in settings.paths],
            "data": [str(path.absolute()) for path in settings.data],
            "lookahead": revision.schedule.lookahead,
            "share": self._share,
            "metric": revision.workload.metric,
        }

    async def _serve(self, script: Script) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script.attend)
            nursery.start_soon(self._work, script)
            await script.ended.wait()
            nursery.cancel_scope.cancel()

    async def _work(self, script: Script) -> None:
        await script.listens.wait()
        try:
            await self._checked.info()
        except WorkloadError as error:
            await script.send(Request(0, Call.REFUSED, encode(Failure(str(error)))))
            await script.leave()
            return
        self._worker.begin()
        while True:
            moved = self._lane.moved
            for certified in list(self._certified()):
                del self._worker.trained[certified.height]
                await script.send(Request(0, Call.CERTIFIED, encode(certified)))
            await moved.wait()
            await self._reported()

    async def _reported(self) -> None:
        """Until the newest head is measured, or that has taken too long."""
        with trio.move_on_after(REPORTS_S):
            while True:
                if metric_of(self._lane.chronicle, self._lane.decision) is not None:
                    return
                await trio.sleep(LOOK_S)

    def _certified(self) -> Iterator[Certified]:
        decision = self._lane.decision
        for height, result in self._worker.trained.items():
            for decided in range(height, decision.height + 1):
                found = self._decided(decided, height, result)
                if found is not None:
                    yield found
                    break

    def _decided(self, at: int, height: int, result: TrainResult) -> Certified | None:
        """What the decision at a height says of the update of a lease; None where a later one may say it."""
        decision = self._lane.decision_at(at)
        cohort = decode(Choices, decision.choices).cohort if decision and decision.choices else ()
        mine = next((one for one in cohort if one.update.content.artifact == result.artifact), None)
        if mine is None and at < height + self._lane.setting.revision.schedule.lookahead:
            return None
        why, weight = _judged(decision, mine, cohort)
        head = self._lane.decision if decision is None else decision
        metric = metric_of(self._lane.chronicle, head)
        return Certified(
            height=height,
            decided=at,
            accepted=not why,
            why=why,
            weight=weight,
            head=head.head,
            metric=metric,
            samples=result.samples,
            steps=result.steps,
            loss=result.loss,
        )


def _judged(
    decision: Decision | None, mine: Candidate | None, cohort: tuple[Candidate, ...]
) -> tuple[str, int]:
    """Why an update does not count, or nothing and its share in the new head, millionths."""
    if decision is None:
        return "this node leapt over the decision on it", 0
    if decision.header.outcome is not Outcome.PROMOTED:
        return decision.header.outcome.text, 0
    if mine is None:
        return "it came too late, or the lease was called off", 0
    if mine.verdict is not Verdict.ACCEPTED:
        return f"rejected: {mine.verdict.name.lower()}", 0
    accepted = (one for one in cohort if one.verdict is Verdict.ACCEPTED)
    total = sum(one.update.content.samples for one in accepted)
    return "", mine.update.content.samples * MILLION // total
