"""A workload that takes no torch and little time, behind the real worker's pipes: what a crash lane trains.

Its model is one tensor; training adds to it what the seed and the owner say, evaluating finds every head as good.
"""

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import numpy as np

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.work import (
    MILLION,
    Evaluation,
    Schema,
    TensorSpec,
    WorkloadInfo,
)
from p2pd.tensors.files import TensorFile, write_artifact
from p2pd.tensors.updates import WHOLE
from p2pd.workload.contract import Pause
from p2pd.workload.protocol import BuildCall, Done, EvaluateCall, InitialCall, TrainCall

ELEMENTS = 300_000
"""More than one chunk, so that an artifact can be half here."""
SCHEMA = Schema((TensorSpec("w", "F32", (ELEMENTS,), False),))
SAMPLES = 4000
SHARD_SAMPLES = 10
STEP_S = 0.02
SOURCE = sha256(b"stand-in").digest()
INSTALL = """
import sys
if "p2pd.workload.serve" in sys.orig_argv:
    import tests.crash.standin
    for name in ("session", "defaults"):
        sys.modules[f"p2pd.workload.{name}"] = tests.crash.standin
"""
"""Python runs it first in every process of a node; it takes effect in the worker only."""


class Defaults:
    """In place of p2pd.workload.defaults.Defaults: without torch there are none."""

    def restore(self) -> list[str]:
        return []


class Session:
    """In place of p2pd.workload.session.Session."""

    workers = 1

    def __init__(self, call: BuildCall, *, anew: bool, give_up: Callable[[str], None]) -> None:
        del call, anew, give_up  # there is nothing to choose, and nothing is kept

    def settle(self) -> None:
        """Nothing is left to store."""

    def close(self) -> None:
        """There are no other workers."""

    def info(self) -> WorkloadInfo:
        return WorkloadInfo(SCHEMA, SAMPLES, SAMPLES, "accuracy", True, SOURCE)

    def initial(self, call: InitialCall) -> Manifest:
        return write_head(Path(os.fsdecode(call.output)))

    def train(self, call: TrainCall, pause: Pause) -> Done:
        job = call.job
        base = TensorFile(Path(os.fsdecode(call.base))).values(0, WHOLE)
        dice = Random(f"{job.seed} {job.owner.hex()}")
        steps = min(dice.randint(2, 12), len(job.shards) * job.shard_samples)
        for _ in range(steps):
            pause()
            time.sleep(STEP_S)  # noqa: TID251 - what training is here
        arrays = {"w": (base + dice.random()).astype("<f4").reshape(ELEMENTS)}
        output = Path(os.fsdecode(call.output))
        manifest = write_artifact(output, ArtifactKind.UPDATE, SCHEMA, arrays)
        return Done(manifest, len(job.shards) * job.shard_samples, steps, MILLION, 1000)

    def evaluate(self, call: EvaluateCall, pause: Pause) -> Evaluation:
        pause()
        TensorFile(Path(os.fsdecode(call.head))).require(SCHEMA)
        private = (MILLION,) * call.job.private_samples
        return Evaluation(call.job.head, True, MILLION // 2, MILLION, SAMPLES, private)


def write_head(path: Path) -> Manifest:
    return write_artifact(path, ArtifactKind.HEAD, SCHEMA, {"w": np.zeros(ELEMENTS, "<f4")})


def install(directory: Path) -> dict[str, str]:
    """The environment in which the worker of a node is this one."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(INSTALL)
    root = Path(__file__).parents[2]
    return {"PYTHONPATH": f"{directory}:{root}"}
