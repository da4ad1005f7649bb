"""A workload and its arithmetic small enough to run thousands of windows: four integers that walk towards a target.

The payload of an artifact is the encoded vector. All work takes virtual time drawn from the seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import isqrt
from random import Random

import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import outer_schema, update_schema
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId, digest
from p2pd.core.work import (
    FULL,
    MILLION,
    EvaluateJob,
    Evaluation,
    HeadStep,
    Inspection,
    InspectJob,
    Measured,
    Merged,
    MergeInput,
    MergeJob,
    RebuildJob,
    Schema,
    TensorSpec,
    TrainJob,
    TrainResult,
    Verdict,
    WorkloadInfo,
)
from p2pd.errors import RemoteError, WorkloadError
from p2pd.sim.clock import pause
from p2pd.sim.store import MemoryBlobs

TARGET = (3 * MILLION, -2 * MILLION, MILLION, 7 * MILLION)
SCHEMA = Schema((TensorSpec("walk", "I64", (4,), False),))
SOURCE = digest("scripted-workload", b"")
TRAIN_SAMPLES = 1600
VALIDATION_SAMPLES = 100
SHARD_SAMPLES = 16


Values = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Vector:
    values: Values


START = Vector((0, 0, 0, 0))
END_METRIC, END_BAND = 550_000, 2_000
"""Where runs with a target end, millionths."""
SPREAD = END_BAND // 4
"""By so much at most validators measure one head differently."""
UNITS = 127
"""Of a head's step: its largest element is of at most so many."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is certified beside a head."""

    parts: tuple[Values, ...]


def _unwatched(*_: object) -> None:
    """Nobody looks."""


def load_vector(blobs: MemoryBlobs, artifact: ArtifactId) -> Vector:
    return _vector(blobs.payload(artifact))


@lru_cache(maxsize=256)
def _vector(payload: bytes) -> Vector:
    return decode(Vector, payload)


@dataclass(slots=True)
class ScriptedMath:
    """Port Math. The merge is a weighted mean of integers, one left fold, as exact as its order."""

    blobs: MemoryBlobs
    dice: Random
    inspected: Callable[[Inspection], None] = _unwatched
    """Told of each result, as merged is."""
    merged: Callable[[MergeJob, Merged], None] = _unwatched

    async def inspect(self, job: InspectJob) -> Inspection:
        await pause(self.dice.uniform(0.01, 0.1))
        inspection = Inspection(job.artifact, Verdict.ACCEPTED, "")
        try:
            load_vector(self.blobs, job.artifact)
        except RemoteError as error:
            inspection = Inspection(job.artifact, Verdict.LAYOUT, str(error))
        self.inspected(inspection)
        return inspection

    async def merge(self, job: MergeJob) -> Merged:
        await pause(self.dice.uniform(0.05, 0.4))
        vectors = [self._upon(job.base, one) for one in job.inputs]
        merged, total = vectors[0], 0
        for values, one in zip(vectors, job.inputs, strict=True):
            merged = _mean(merged, total, values, one.weight)
            total += one.weight
        parts = self._parts(job)
        if job.optimizer.keeps_state:
            merged, parts[0] = self._moved(job, merged, parts[0])
        step = None
        if job.head_codec != "f32":
            base = load_vector(self.blobs, job.base).values
            moved, parts[-1] = in_units(_less(merged, base), parts[-1])
            merged = _plus(base, moved)
            schema = update_schema(job.schema, job.head_codec)
            put = self.blobs.put(ArtifactKind.STEP, schema.id, encode(Vector(moved)))
            step = HeadStep(job.base, await put)
        head = await self._put_head(job.schema, merged)
        outer = None
        if parts:
            schema = outer_schema(job.schema, len(parts))
            put = self.blobs.put(ArtifactKind.OUTER, schema.id, encode(Kept(tuple(parts))))
            outer = await put
        norms = tuple(isqrt(sum(value * value for value in v)) for v in vectors)
        clips = (FULL,) * len(job.inputs)
        result = Merged(head, outer, job.rule.name, clips, Measured(norms, (0,)), step)
        self.merged(job, result)
        return result

    def _upon(self, base: ArtifactId, one: MergeInput) -> Values:
        """An update's values; the steps upon the base of one that started from an earlier head."""
        values = load_vector(self.blobs, one.artifact).values
        own = load_vector(self.blobs, one.base or base).values
        new = load_vector(self.blobs, base).values
        return _plus(values, _less(new, own))

    async def rebuild(self, job: RebuildJob) -> None:
        await pause(self.dice.uniform(0.01, 0.1))
        base = load_vector(self.blobs, job.step.base).values
        step = load_vector(self.blobs, job.step.artifact).values
        if await self._put_head(job.schema, _plus(base, step)) != job.head:
            raise RemoteError("another head comes out of its step")

    async def _put_head(self, schema: Schema, values: Values) -> ArtifactId:
        return await self.blobs.put(ArtifactKind.HEAD, schema.id, encode(Vector(values)))

    def _parts(self, job: MergeJob) -> list[Values]:
        """Of the state before."""
        if job.outer is None:
            return [START.values] * job.state_parts
        return [*decode(Kept, self.blobs.payload(job.outer)).parts]

    def _moved(self, job: MergeJob, merged: Values, before: Values) -> tuple[Values, Values]:
        """Nesterov momentum in whole numbers: the head, and the velocity."""
        base = load_vector(self.blobs, job.base).values
        momentum, lr = job.optimizer.momentum, job.optimizer.lr
        steps = [new - old for new, old in zip(merged, base, strict=True)]
        speed = [momentum * old // MILLION + step for old, step in zip(before, steps, strict=True)]
        head = [
            start + lr * (step + momentum * fast // MILLION) // MILLION
            for start, step, fast in zip(base, steps, speed, strict=True)
        ]
        return _four(head), _four(speed)

    async def self_test(self) -> None:
        await trio.lowlevel.checkpoint()


@dataclass(slots=True)
class ScriptedWorker:
    """Port Worker. Each lease brings the vector nearer to the target, with noise of the node's own."""

    blobs: MemoryBlobs
    dice: Random
    failures: float = 0.0
    """Share of leases on which the workload raises."""
    doubts: float = 0.0
    """Share of heads that this node's own samples reject."""
    train_s: tuple[float, float] = (0.5, 3.0)
    """What a lease takes: between these."""
    steps: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Of each lease, by its height."""
    own: list[int] = field(default_factory=list)
    """Where the last lease has come to."""

    async def info(self) -> WorkloadInfo:
        await trio.sleep(0.5)
        return WorkloadInfo(SCHEMA, TRAIN_SAMPLES, VALIDATION_SAMPLES, "closeness", True, SOURCE)

    async def train(self, job: TrainJob) -> TrainResult:
        took_s = self.dice.uniform(*self.train_s)
        await pause(took_s)
        if self.dice.random() < self.failures:
            raise WorkloadError("scripted failure in step 3")
        base = load_vector(self.blobs, job.base).values
        carried = [self.steps.get(height, START.values) for height in job.carry]
        values = [sum(parts) for parts in zip(base, *carried, strict=True)]
        if job.own:
            values = [
                (value * (MILLION - job.own) + own * job.own) // MILLION
                for value, own in zip(base, self.own or base, strict=True)
            ]
        moves = [
            (goal - value) // 4 + self.dice.randrange(-20_000, 20_000)
            for value, goal in zip(values, TARGET, strict=True)
        ]
        self.steps[job.height] = (moves[0], moves[1], moves[2], moves[3])
        self.own = [value + move for value, move in zip(values, moves, strict=True)]
        nearer = [value + move for value, move in zip(base, moves, strict=True)]
        payload = encode(Vector((nearer[0], nearer[1], nearer[2], nearer[3])))
        artifact = await self.blobs.put(ArtifactKind.UPDATE, SCHEMA.id, payload, job.owner)
        samples = len(job.shards) * job.shard_samples
        steps = max(1, samples // 32)
        return TrainResult(artifact, len(payload), samples, steps, _loss(nearer), took_s)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        await pause(self.dice.uniform(0.05, 0.3))
        loss = _loss(load_vector(self.blobs, job.head).values)
        differs = Random(f"{job.private_seed}/{job.head.hex()}/metric").randint(-SPREAD, SPREAD)
        metric = max(0, MILLION - loss // 13 + differs)
        private_loss, draw = loss, Random(job.private_seed)
        if Random(f"{job.private_seed}/{job.head.hex()}").random() < self.doubts:
            private_loss += 2 * loss + MILLION  # beyond what the canary lets pass
        private = tuple(private_loss + draw.randrange(100_000) for _ in range(job.private_samples))
        return Evaluation(job.head, True, metric, loss, VALIDATION_SAMPLES, private)


def in_units(steps: Values, left: Values) -> tuple[Values, Values]:
    """Steps in whole units of their largest, and what that leaves."""
    wanted = _plus(steps, left)
    unit = max(abs(step) for step in wanted) // UNITS + 1
    said = _four([(step + unit // 2) // unit * unit for step in wanted])
    return said, _less(wanted, said)


def _plus(one: Values, other: Values) -> Values:
    return _four([a + b for a, b in zip(one, other, strict=True)])


def _less(one: Values, other: Values) -> Values:
    return _four([a - b for a, b in zip(one, other, strict=True)])


def _four(values: list[int]) -> Values:
    return values[0], values[1], values[2], values[3]


def _mean(one: Values, weight: int, other: Values, more: int) -> Values:
    a, b, c, d = (
        (x * weight + y * more) // (weight + more) for x, y in zip(one, other, strict=True)
    )
    return a, b, c, d


def _loss(values: tuple[int, int, int, int] | list[int]) -> int:
    return sum(abs(value - goal) for value, goal in zip(values, TARGET, strict=True))
