"""The workload inside its process: builds it, and carries out one call after the other.

Units: losses and metrics in millionths; durations in microseconds.
"""

import json
import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import monotonic_ns
from typing import Any

import torch

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.work import (
    LOSS_MAX,
    MILLION,
    DataInfo,
    EvaluateJob,
    Evaluation,
    Figure,
    TrainJob,
    WorkloadInfo,
)
from p2pd.errors import WorkloadError
from p2pd.workload import answers
from p2pd.workload.ahead import OwnSteps
from p2pd.workload.contract import Lease, Pause, Workload
from p2pd.workload.defaults import Defaults
from p2pd.workload.devices.crew import GiveUp, end_process
from p2pd.workload.devices.team import Team, Turn
from p2pd.workload.heads import read_head, write_state
from p2pd.workload.inner import InnerState
from p2pd.workload.looking import (
    first_difference,
    footprint,
    left_running,
    resident_bytes,
    tied_names,
)
from p2pd.workload.pipelines import leased
from p2pd.workload.protocol import (
    BuildCall,
    Done,
    EvaluateCall,
    InitialCall,
    Look,
    LookCall,
    TrainCall,
)
from p2pd.workload.seeding import seed_all
from p2pd.workload.source import find_build, source_digest
from p2pd.workload.state import require
from p2pd.workload.updates import Output, write
from p2pd.workload.weights import load_weights

MEETING = "workers"
"""Name of the file in which the workers of several devices find each other, in the trainer's own directory."""


@dataclass(frozen=True, slots=True)
class Kept:
    """From one lease to the next."""

    steps: OwnSteps
    inner: InnerState | None
    """None where there is no directory for it: then it is what it is."""

    def sync(self) -> None:
        self.steps.sync()
        if self.inner is not None:
            self.inner.sync()


class Session:
    def __init__(
        self, call: BuildCall, *, anew: bool = False, give_up: GiveUp = end_process
    ) -> None:
        """anew: the inner state that lies on disk is not used. give_up: where several workers cannot go on.

        Raises WorkloadError, or whatever importing and building the user's code raises.
        """
        torch.set_num_threads(call.threads)
        self._call = call
        self._source = source_digest(call.module)
        self._anew = anew
        self._give_up = give_up
        before = Defaults()
        self._team = Team(call, self._source)
        try:
            self._workload = build_workload(call.module, json.loads(call.config))
            self._schema = answers.schema_of(self._workload)
            self._team.take(self._workload)
        except BaseException:
            self._team.close()
            raise
        self._changed = [f"building leaves {change}" for change in before.changes()]
        self._kept: Kept | None = None
        self._settling: Thread | None = None
        self._defaults = Defaults()
        self._built_bytes = resident_bytes()
        self._fresh = True

    @property
    def workload(self) -> Workload:
        return self._workload

    @property
    def workers(self) -> int:
        return self._team.size

    def close(self) -> None:
        """Ends the other workers, where there are any."""
        self._team.close()

    def info(self) -> WorkloadInfo:
        kind, descriptor, root = answers.data_of(self._workload)
        data = DataInfo(kind, descriptor, str(root) if root else "")
        return WorkloadInfo(
            self._schema, *answers.described(self._workload), self._source, data, self._team.devices
        )

    def initial(self, call: InitialCall) -> Manifest:
        """Writes the head that a revision of this workload and config starts from."""
        workload = self._workload
        if not self._fresh:
            workload = build_workload(self._call.module, json.loads(self._call.config))
        if call.weights:
            self._fresh = False
            load_weights(workload, self._schema, Path(os.fsdecode(call.weights)))
        output = Path(os.fsdecode(call.output))
        return write_state(output, ArtifactKind.HEAD, self._schema, self._state(workload))

    def train(self, call: TrainCall, pause: Pause) -> Done:
        started_ns = monotonic_ns()
        job = call.job
        own = Path(os.fsdecode(call.own)) if call.own else None
        kept = self._kept = self._kept or self._keep(own)
        base = self._load(call.base)
        start = (
            kept.steps.mixed(base, job.height, job.own)
            if job.own
            else kept.steps.upon(base, job.carry)
        )
        if start is not None:
            self._workload.load(start)
        if kept.inner is not None:
            kept.inner.enter(job.height)
        samples = leased_samples(job, self._workload.train_samples)
        lease = Lease(samples, job.progress.steps, job.seed, pause)
        output = Output(Path(os.fsdecode(call.output)), Path(os.fsdecode(call.base)), own)
        turn = Turn(job, (own or output.path.parent) / MEETING, self._give_up)
        with leased(self._workload.pipeline, lease):
            answer = self._team.train(self._workload, lease, turn)
        trained = answers.trained_of(answer, len(samples))
        end = self._state(self._workload)
        manifest = write(output, job, self._schema, end, start)
        self._settled()
        if job.remember:
            kept.steps.remember(job.height, start or base, end, job.remember)
        if job.own:
            kept.steps.stand(job.height, end)
        if kept.inner is not None:
            kept.inner.leave(job.height)
        return Done(
            manifest,
            trained.samples,
            trained.steps,
            millionths(trained.loss),
            (monotonic_ns() - started_ns) // 1000,
        )

    def settle(self) -> None:
        """Puts what the last lease left on stable storage, beside the next one: a disk may take its time."""
        if self._kept is not None:
            self._settling = Thread(target=self._kept.sync, daemon=True)
            self._settling.start()

    def _settled(self) -> None:
        if self._settling is not None:
            self._settling.join()
            self._settling = None

    def _keep(self, own: Path | None) -> "Kept":
        inner = None if own is None else InnerState(self._workload, own, anew=self._anew)
        return Kept(OwnSteps(self._schema, own), inner)

    def evaluate(self, call: EvaluateCall, pause: Pause) -> Evaluation:
        self._load(call.head)
        job, workload = call.job, self._workload
        result = answers.evaluated_of(workload.evaluate(pause))
        samples = private_samples(job, workload.validation_samples)
        wanted = len(samples)
        private = answers.losses_of(workload.sample_losses(samples, pause), wanted)
        if not all(map(math.isfinite, (result.metric, result.loss, *private))):
            return Evaluation(job.head, False, 0, 0, result.samples, ())
        figures = answers.figures_of(result.others, workload.probes(pause))
        return Evaluation(
            job.head,
            True,
            millionths(result.metric),
            millionths(result.loss),
            result.samples,
            tuple(map(millionths, private)),
            tuple(Figure(name, millionths(value)) for name, value in figures.items()),
        )

    def look(self, call: LookCall) -> Look:
        """To be called after evaluate, with the same head."""
        head = read_head(Path(os.fsdecode(call.head)), self._schema)
        moved = first_difference(self._state(self._workload), head)
        # Into a state that is another one.
        self._workload.load({name: torch.ones_like(tensor) for name, tensor in head.items()})
        self._load(call.head)
        missed = first_difference(self._state(self._workload), head)
        return Look(
            tied_names(self._workload.aliases()),
            tuple(dict.fromkeys(self._changed)),
            moved or "",
            missed or "",
            len(left_running()),
            footprint(self._built_bytes),
        )

    def _state(self, workload: Workload) -> Mapping[str, torch.Tensor]:
        state = workload.state()
        require(state, self._schema)
        return state

    def _load(self, path: bytes) -> Mapping[str, torch.Tensor]:
        """The tensors are mapped from the file, and hold as long as it does."""
        self._fresh = False
        self._changed += [f"a call leaves {change}" for change in self._defaults.restore()]
        head = read_head(Path(os.fsdecode(path)), self._schema)
        self._workload.load(head)
        return head


def build_workload(module: str, config: dict[str, Any]) -> Workload:
    """The workload that a module builds, its chance seeded from config["seed"], else 0.

    Raises:
        WorkloadError: build gave something else; or whatever the user's code raises.
    """
    build = find_build(module)
    seed_all(int(config.get("seed", 0)) % 2**64)
    workload = build(config)
    if not isinstance(workload, Workload):
        raise WorkloadError(
            f"build(config) of {module!r} returned {type(workload).__name__}:"
            " return p2pd.from_loaders(...) or an instance of a subclass of p2pd.Workload"
        )
    return workload


def leased_samples(job: TrainJob, train_samples: int) -> list[int]:
    """The samples of a job's microshards; the last one of the data may be short.

    Raises:
        WorkloadError: a microshard lies outside the data.
    """
    samples: list[int] = []
    for shard in job.shards:
        start = shard * job.shard_samples
        if not 0 <= start < train_samples:
            raise WorkloadError(
                f"microshard {shard} of {job.shard_samples} samples lies outside the"
                f" {train_samples} samples of the data"
            )
        samples += range(start, min(start + job.shard_samples, train_samples))
    return samples


def private_samples(job: EvaluateJob, validation_samples: int) -> list[int]:
    """This validator's own part of the validation set: the same seed gives the same samples."""
    count = min(job.private_samples, validation_samples)
    return random.Random(job.private_seed).sample(range(validation_samples), count)


def millionths(value: float) -> int:
    scaled = value * MILLION
    return round(max(-LOSS_MAX, min(LOSS_MAX, scaled)))
