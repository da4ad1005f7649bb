"""A fleet that trains a real workload in virtual time, from its settings to the quality of each head.

Units: samples, nominal optimizer steps; seconds are virtual.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from p2pd.core.decision import Decision, Outcome
from p2pd.core.genesis import Genesis
from p2pd.core.revision import Revision, SignedRevision
from p2pd.core.work import MILLION
from p2pd.daemon.outer import OuterSettings
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    PublishRequest,
    RevisionSettings,
    ScheduleSettings,
    UpdateSettings,
    revision_of,
)
from p2pd.errors import LocalError
from p2pd.lab.devices import Judge, SessionWorker, TensorMath
from p2pd.lab.shelf import Shelf
from p2pd.ports import Math, Worker
from p2pd.sim.breaking import Audience
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import FleetResult, run_fleet
from p2pd.sim.lives import Life
from p2pd.sim.shape import FleetShape
from p2pd.sim.signing import SimSigner
from p2pd.sim.traffic import Traffic
from p2pd.wire.records import seal_revision
from p2pd.workload.protocol import BuildCall, InitialCall
from p2pd.workload.session import Session

QUOTA_HEADS = 40
"""What a node's store takes, beyond what the chain pins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is trained, by how many, and by which settings of a revision."""

    workload: str
    config: Mapping[str, Any] = field(default_factory=dict)
    trainers: int = 4
    validators: int = 1
    heads: int
    """To be promoted."""
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    update: UpdateSettings = field(default_factory=UpdateSettings)
    merge: MergeSettings = field(default_factory=MergeSettings)
    outer: OuterSettings = field(default_factory=OuterSettings)
    canary: CanarySettings = field(default_factory=CanarySettings)
    sample_s: tuple[float, float] = (0.002, 0.0023)
    """What a sample of a lease takes to train: between these, drawn for each lease."""
    seed: int = 0
    """Of the network: keys, deals of samples, and all that a revision's own seed fixes."""


@dataclass(frozen=True, slots=True)
class Point:
    """How good a head is."""

    height: int
    heads: int
    steps: int
    samples: int
    metric: float
    loss: float


@dataclass(frozen=True, slots=True)
class Trained:
    revision: Revision
    points: tuple[Point, ...]
    """Of the genesis head and of each that was promoted after it."""
    chain: Mapping[int, Decision]
    """By height."""
    traffic: Traffic
    """Of nodes by name, trainer1 and so on."""


def train(course: Course) -> Trained:
    """Runs the fleet until its last head.

    Raises:
        LocalError: it broke an invariant, or came to no end.
        WorkloadError: the workload failed.
    """
    with tempfile.TemporaryDirectory(prefix="p2pd-lab-") as directory:
        subject = TensorSubject(course, Path(directory))
        result = run_fleet(course.seed, _shape(course), subject)
        return _trained(result, subject)


def _shape(course: Course) -> FleetShape:
    return FleetShape(
        validators=course.validators,
        quorum=course.validators // 2 + 1,
        trainers=course.trainers,
        reducers=0,
        windows=course.heads,
        faults=FaultSet.NONE,
    )


class TensorSubject:
    """Implements Subject: a real workload, its training and its merges."""

    data = ()

    def __init__(self, course: Course, directory: Path) -> None:
        """directory is empty, and holds files of artifacts as long as the fleet runs."""
        self._course = course
        self._build = BuildCall(course.workload, json.dumps(dict(course.config)), 1)
        self._shelf = Shelf(directory)
        self.judge = Judge(Session(self._build))
        path = self._shelf.fresh()
        manifest = self.judge.session.initial(InitialCall(str(path).encode()))
        self.head, self._head_id = path.read_bytes(), manifest.id
        self.quota_bytes = QUOTA_HEADS * len(self.head)

    def revision(
        self, seed: int, shape: FleetShape, genesis: Genesis, number: int
    ) -> SignedRevision:
        course, authority = self._course, SimSigner(seed, "authority")
        request = PublishRequest(
            examine=False,
            genesis=genesis,
            signers=(authority,),
            out=self._shelf.directory / "unwritten",
            revision=RevisionSettings(
                study="lab",
                experiment=course.workload.rpartition(".")[2],
                name=f"r{number + 1}",
                workload=course.workload,
                config=self._build.config,
            ),
            schedule=replace(course.schedule, end_heads=shape.windows_of(number)),
            merge=course.merge,
            canary=course.canary,
            update=course.update,
            outer=course.outer,
            log=_unheard,
        )
        revision = revision_of(request, self.judge.session.info(), self._head_id)
        seed_bytes = sha256(f"{seed}/data/r{number + 1}".encode()).digest()
        return seal_revision(replace(revision, seed=seed_bytes), request.signers)

    def math(self, life: Life, dice: Random, told: Audience) -> Math:
        return TensorMath(self._shelf, life.blobs, dice, told)

    def worker(self, life: Life, dice: Random, doubts: float) -> Worker:
        return SessionWorker(
            self._shelf,
            life.blobs,
            dice,
            self._build,
            self.judge,
            self._course.sample_s,
            self._shelf.directory / life.name,
        )


def _trained(result: FleetResult, subject: TensorSubject) -> Trained:
    found = result.checkers.violations
    if found:
        raise LocalError(f"{found[0].invariant} at height {found[0].height}: {found[0].what}")
    chain = result.checkers.chain
    promoted = [chain[height] for height in sorted(chain)]
    points = [
        _point(one, subject.judge)
        for one in promoted
        if one.header.outcome is Outcome.PROMOTED and one.head in subject.judge.heads
    ]
    return Trained(result.checkers.setting.revision, tuple(points), chain, result.traffic)


def _point(decision: Decision, judge: Judge) -> Point:
    progress, found = decision.state.progress, judge.heads[decision.head]
    metric, loss = found.metric / MILLION, found.loss / MILLION
    return Point(decision.height, progress.heads, progress.steps, progress.samples, metric, loss)


def _unheard(line: str) -> None:
    """What the workload prints goes to standard output, in one process with the lab."""
