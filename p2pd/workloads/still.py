"""A workload that trains nothing: what a window costs when the training is free.

Each lease moves every parameter by one small number of its own, so that updates differ and each
merged head is a new one. Config keys: megabytes, of the model, in 10**6 bytes (default 1); seconds, that
a lease keeps its device busy (default 0): the device is one that waits instead of computing; journal, a
directory in which each process writes when its device was busy: a file by its number, of lines
`BEGIN END` in seconds of the machine's monotonic clock (default: none).
"""

import os
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import torch

from p2pd.core.work import Schema, TensorSpec
from p2pd.workload.contract import Evaluated, Lease, Pause, Trained, Workload
from p2pd.workloads.settings import parse

SAMPLES = 2**20
VALIDATION_SAMPLES = 64
TENSOR_PARAMETERS = 2**22
"""At most, in one tensor."""
TENSORS = 4
"""At least."""
STEP = 1e-3
LOOK_S = 0.05
"""How often a device that waits looks whether it is called off."""
NO_TIME_S = 1e-9
"""Stands for none: a setting of seconds is positive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    megabytes: float = 1.0
    seconds: float = NO_TIME_S
    journal: str = "none"


class StillWorkload(Workload):
    metric = "stillness"
    higher_is_better = True

    def __init__(self, settings: Settings) -> None:
        parameters = max(1, round(settings.megabytes * 1e6 / 4))
        self._seconds = settings.seconds
        self._journal = None if settings.journal == "none" else Path(settings.journal)
        size = max(1, min(TENSOR_PARAMETERS, -(-parameters // TENSORS)))
        sizes = [min(size, parameters - start) for start in range(0, parameters, size)]
        self._state = {
            f"layer{number:04}": torch.zeros(count) for number, count in enumerate(sizes)
        }

    @property
    def train_samples(self) -> int:
        return SAMPLES

    @property
    def validation_samples(self) -> int:
        return VALIDATION_SAMPLES

    def schema(self) -> Schema:
        return Schema(
            tuple(
                TensorSpec(name, "F32", tuple(tensor.shape), buffer=False)
                for name, tensor in self._state.items()
            )
        )

    def state(self) -> Mapping[str, torch.Tensor]:
        return self._state

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in self._state.items():
            tensor.copy_(state[name])

    def train(self, lease: Lease) -> Trained:
        begin_s = monotonic()
        while (left_s := begin_s + self._seconds - monotonic()) > 0:
            lease.pause()
            threading.Event().wait(min(LOOK_S, left_s))
        # Of the lease, not of its number in the window: two trainers must not move alike.
        step = random.Random(f"{lease.seed}/{lease.samples[0]}").uniform(-STEP, STEP)
        for tensor in self._state.values():
            lease.pause()
            tensor.add_(step)
        if self._journal is not None:
            with (self._journal / str(os.getpid())).open("a") as journal:
                journal.write(f"{begin_s:.6f} {monotonic():.6f}\n")
        return Trained(len(lease.samples), 1, 1.0)

    def evaluate(self, pause: Pause) -> Evaluated:
        pause()
        return Evaluated(1.0, 1.0, VALIDATION_SAMPLES)

    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        pause()
        return [1.0] * len(samples)


def build(config: Mapping[str, object]) -> Workload:
    """Raises WorkloadError, naming the key."""
    return StillWorkload(parse(Settings, "still", config))
