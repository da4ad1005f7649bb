"""Ports Math and Worker over the real merge and the real training session, in the process of the simulator.

The work itself takes no virtual time: what it is to take is drawn. Seconds are virtual.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from p2pd.core.codecs import carries_values
from p2pd.core.ids import ArtifactId
from p2pd.core.work import (
    EvaluateJob,
    Evaluation,
    Inspection,
    InspectJob,
    Merged,
    MergeJob,
    RebuildJob,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)
from p2pd.lab.shelf import Shelf
from p2pd.sim.breaking import Audience
from p2pd.sim.clock import pause
from p2pd.sim.store import MemoryBlobs
from p2pd.tensors.inspection import inspect
from p2pd.tensors.merge import Outputs, merge
from p2pd.tensors.stepping import rebuild
from p2pd.workload.protocol import BuildCall, EvaluateCall, TrainCall
from p2pd.workload.session import Session

LOOK_S = (0.01, 0.05)
MERGE_S = (0.05, 0.2)
EVALUATE_S = (0.05, 0.2)


@dataclass(slots=True)
class TensorMath:
    """Port Math."""

    shelf: Shelf
    blobs: MemoryBlobs
    dice: Random
    told: Audience

    async def inspect(self, job: InspectJob) -> Inspection:
        await pause(self.dice.uniform(*LOOK_S))
        base = () if carries_values(job.codec) else (job.base,)
        inspection = inspect(await self.shelf.paths(self.blobs, (job.artifact, *base)), job)
        self.told.inspected(inspection)
        return inspection

    async def merge(self, job: MergeJob) -> Merged:
        await pause(self.dice.uniform(*MERGE_S))
        before = () if job.outer is None else (job.outer,)
        updates = (one.artifact for one in job.inputs)
        origins = (one.base or job.base for one in job.inputs)
        files = await self.shelf.paths(self.blobs, (job.base, *before, *updates, *origins))
        outputs = Outputs(*(self.shelf.fresh() for _ in range(3)))
        answer = merge(files, job, outputs)
        await self.shelf.adopt(self.blobs, outputs.head, answer.manifest)
        if answer.outer is not None:
            await self.shelf.adopt(self.blobs, outputs.outer, answer.outer)
        if answer.step is not None:
            await self.shelf.adopt(self.blobs, outputs.step, answer.step)
        self.told.merged(job, answer.merged)
        return answer.merged

    async def rebuild(self, job: RebuildJob) -> None:
        await pause(self.dice.uniform(*LOOK_S))
        files = await self.shelf.paths(self.blobs, (job.step.base, job.step.artifact))
        path = self.shelf.fresh()
        await self.shelf.adopt(self.blobs, path, rebuild(files, job, path))

    async def self_test(self) -> None:
        await trio.lowlevel.checkpoint()


@dataclass(slots=True)
class Judge:
    """Evaluates for all validators: what comes of it follows from the job alone."""

    session: Session
    found: dict[EvaluateJob, Evaluation] = field(default_factory=dict)
    heads: dict[ArtifactId, Evaluation] = field(default_factory=dict)
    """The first of each head."""

    def evaluate(self, job: EvaluateJob, path: Path) -> Evaluation:
        known = self.found.get(job)
        if known is None:
            known = self.session.evaluate(EvaluateCall(job, os.fsencode(path)), _never)
            self.found[job] = known
            self.heads.setdefault(job.head, known)
        return known


@dataclass(slots=True)
class SessionWorker:
    """Port Worker, for one life of a node: its optimizer is as old as this life."""

    shelf: Shelf
    blobs: MemoryBlobs
    dice: Random
    build: BuildCall
    judge: Judge
    sample_s: tuple[float, float]
    """What a sample of a lease takes to train: between these, drawn for each lease."""
    own: Path
    """For what outlives the process, as the node's data directory does."""
    session: Session | None = None
    """Built for the first lease: validators train none."""

    async def info(self) -> WorkloadInfo:
        await pause(self.dice.uniform(*LOOK_S))
        return self.judge.session.info()

    async def train(self, job: TrainJob) -> TrainResult:
        samples = len(job.shards) * job.shard_samples
        took_s = samples * self.dice.uniform(*self.sample_s)
        await pause(took_s)
        if self.session is None:
            self.session = Session(self.build)
        base, output = await self.shelf.path(self.blobs, job.base), self.shelf.fresh()
        paths = map(os.fsencode, (base, output, self.own))
        done = self.session.train(TrainCall(job, *paths), _never)
        artifact = await self.shelf.adopt(self.blobs, output, done.manifest, job.owner)
        size_bytes = done.manifest.size_bytes
        return TrainResult(artifact, size_bytes, done.samples, done.steps, done.loss, took_s)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        await pause(self.dice.uniform(*EVALUATE_S))
        return self.judge.evaluate(job, await self.shelf.path(self.blobs, job.head))


def _never() -> None:
    """Nobody calls this work off: it is over before anybody could."""
