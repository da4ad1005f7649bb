"""Nodes of a simulated fleet that break the rules in one way each, with nothing but their own key.

How trainers and reducers tell them is in p2pd.sim.lying_workers, how validators do in p2pd.sim.lying_validators.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any

from p2pd.core.artifact import ArtifactKind
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
    GONE = "gone"
    """Its updates name bytes that do not exist."""
    UNASKED = "unasked"
    """It hands in work without a lease."""
    OLD = "old"
    """It says its updates of older windows again."""
    CONFIDE = "confide"
    """It tells one validator of its update, and gives its bytes to nobody else."""
    FLOOD = "flood"
    """It says many things where one is asked for: updates of its lease, offers, releases."""
    FAREWELL = "farewell"
    """It tells one validator that it leaves, at each height, and works on."""
    # Reducers
    WRONG_MERGE = "wrong merge"
    """It names another head than the merge gives."""
    LATE = "late"
    """Its merge comes a height later."""
    ABSENT = "absent"
    """It offers to merge, and never does."""
    # Validators
    SPLIT = "split"
    """It votes for a decision before some and for none before the others; proposals likewise."""
    DESERT = "desert"
    """As split; once its vote has led somebody to a lock it says no more at that height."""
    FALSE_JUST = "false just"
    """As a proposer it stays silent at first; later it claims quorums that never were."""
    REPEAT = "repeat"
    """It proposes updates of older windows again."""
    STRAY = "stray"
    """It proposes updates of another revision, where it serves one."""
    HASTE = "haste"
    """It proposes as soon as a height begins, before anybody has delivered."""
    FORGE = "forge"
    """It puts into its proposals what others never signed."""
    REVENANT = "revenant"
    """It says again what others said at the same height of an earlier term."""
    TURNCOAT = "turncoat"
    """It votes against its own locks."""
    SILENT = "silent"
    """It neither votes nor proposes."""
    WITHHOLD = "withhold"
    """Its proposals reach some of the others, or nobody."""
    CENSOR = "censor"
    """It leaves a trainer out."""
    SUPPRESS = "suppress"
    """It keeps what the authority says to itself, and out of its proposals."""
    CLAIM = "claim"
    """It proposes that the head reaches the target, whatever it is worth."""
    DENY = "deny"
    """It proposes to train on, however good the head is."""
    UNFETCHABLE = "unfetchable"
    """It proposes updates that nobody can fetch."""
    HOARD = "hoard"
    """It serves no update, so that it may be the only one to have what it proposes."""
    TWO_VOTES = "two votes"
    """It votes for and against everything, before everybody."""
    BABBLE = "babble"
    """It votes for things that do not exist, in rounds that nobody has come to."""


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


TRAINERS_LIES = (
    Lie.GARBAGE,
    Lie.GREED,
    Lie.REPLAY,
    Lie.TWICE,
    Lie.GONE,
    Lie.UNASKED,
    Lie.OLD,
    Lie.CONFIDE,
    Lie.FLOOD,
    Lie.FAREWELL,
)
REDUCERS_LIES = (Lie.WRONG_MERGE, Lie.LATE, Lie.ABSENT)
VALIDATORS_LIES = (
    Lie.SPLIT,
    Lie.DESERT,
    Lie.FALSE_JUST,
    Lie.REPEAT,
    Lie.STRAY,
    Lie.HASTE,
    Lie.FORGE,
    Lie.REVENANT,
    Lie.TWO_VOTES,
    Lie.TURNCOAT,
    Lie.SILENT,
    Lie.WITHHOLD,
    Lie.CENSOR,
    Lie.SUPPRESS,
    Lie.CLAIM,
    Lie.DENY,
    Lie.UNFETCHABLE,
    Lie.HOARD,
    Lie.BABBLE,
)
LYING_SHARE = 0.4
"""How often a node lies, where the fleet survives it."""


def draw_liars(
    seed: int, weights: Mapping[str, int], spare: int, workers: Sequence[str]
) -> tuple[tuple[str, Lie], ...]:
    """Who lies in a fleet, and how.

    weights: of the validators; together the liars weigh no more than spare. workers: who else may lie.
    """
    dice = Random(f"{seed}/liars")
    found: list[tuple[str, Lie]] = []
    for name in dice.sample(sorted(weights), len(weights)):
        if weights[name] <= spare and dice.random() < LYING_SHARE:
            spare -= weights[name]
            found.append((name, dice.choice(VALIDATORS_LIES)))
    for name in workers:
        lies = REDUCERS_LIES if name.startswith("reducer") else TRAINERS_LIES
        if dice.random() < LYING_SHARE:
            found.append((name, dice.choice(lies)))
    return tuple(sorted(found))
