"""Nodes of a simulated fleet that break the rules in one way each, with nothing but their own key.

Here are trainers and reducers; of validators p2pd.sim.lying_validators.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from p2pd.core.artifact import ArtifactKind
from p2pd.core.messages import Reduction, Update
from p2pd.core.reducer import with_other_head
from p2pd.core.signed import Signed
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.ports import Worker
from p2pd.sim.scripted import SCHEMA
from p2pd.sim.store import MemoryBlobs

GARBAGE = b"not a vector"


class Lie(Enum):
    # Trainers
    GARBAGE = "garbage"
    """Its artifact is no model."""
    GREED = "greed"
    """It claims more samples than its lease holds."""
    REPLAY = "replay"
    """It hands in its first update again and again."""
    TWICE = "twice"
    """It publishes two updates for one lease."""
    # Reducers
    WRONG_MERGE = "wrong merge"
    """It names another head than the merge gives."""
    # Validators
    SPLIT = "split"
    """It votes for a decision before some and for none before the others; proposals likewise."""
    DESERT = "desert"
    """As split; once its vote has led somebody to a lock it says no more at that height."""
    FALSE_JUST = "false just"
    """As a proposer it stays silent at first; later it claims quorums that never were."""

    REPEAT = "repeat"
    """It proposes updates of older windows again."""
    HASTE = "haste"
    """It proposes as soon as a height begins, before anybody has delivered."""
    FORGE = "forge"
    """It puts into its proposals what others never signed."""
    REVENANT = "revenant"
    """It says again what others said at the same height of an earlier term."""
    TWO_VOTES = "two votes"
    """It votes for and against everything, before everybody."""


@dataclass(slots=True)
class LyingWorker:
    """Port Worker, over an honest one."""

    worker: Worker
    blobs: MemoryBlobs
    lie: Lie
    first: TrainResult | None = None

    async def info(self) -> WorkloadInfo:
        return await self.worker.info()

    async def train(self, job: TrainJob) -> TrainResult:
        result = await self.worker.train(job)
        if self.lie is Lie.GARBAGE:
            artifact = await self.blobs.put(ArtifactKind.UPDATE, SCHEMA.id, GARBAGE, job.owner)
            return replace(result, artifact=artifact, size_bytes=len(GARBAGE))
        if self.lie is Lie.GREED:
            return replace(result, samples=result.samples + 1)
        if self.lie is Lie.REPLAY:
            self.first = self.first or result
            return replace(result, artifact=self.first.artifact)
        return result

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        return await self.worker.evaluate(job)


Sign = Callable[[str, Any, Any], Signed[Any]]


def retold(lie: Lie, signed: Signed[Any], sign: Sign) -> tuple[Signed[Any], ...]:
    """What a lying trainer or reducer publishes in place of an honest object."""
    content = signed.content
    if lie is Lie.TWICE and isinstance(content, Update):
        second = replace(content, steps=content.steps + 1)
        return (signed, sign(signed.kind, signed.scope, second))
    if lie is Lie.WRONG_MERGE and isinstance(content, Reduction):
        other = replace(content, merged=with_other_head(content.merged))
        return (sign(signed.kind, signed.scope, other),)
    return (signed,)
