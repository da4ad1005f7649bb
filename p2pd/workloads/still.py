"""A workload that trains nothing: what a window costs when the training is free.

Each lease moves every parameter by one small number of its own, so that updates differ and each
merged head is a new one. Config keys: megabytes, of the model, in 10**6 bytes (default 1).
"""

import math
import random
from collections.abc import Mapping, Sequence

import torch

from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Evaluated, Lease, Pause, Trained, Workload

SAMPLES = 2**20
VALIDATION_SAMPLES = 64
TENSOR_PARAMETERS = 2**22
"""At most, in one tensor."""
TENSORS = 4
"""At least."""
STEP = 1e-3


class StillWorkload(Workload):
    metric = "stillness"
    higher_is_better = True

    def __init__(self, parameters: int) -> None:
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
        # Of the lease, not of its number in the window: two trainers must not move alike.
        step = random.Random(f"{lease.seed}/{lease.samples[0]}").uniform(-STEP, STEP)
        for tensor in self._state.values():
            lease.pause()
            tensor.add_(step)
        return Trained(len(lease.samples), 1, 1.0)

    def evaluate(self, pause: Pause) -> Evaluated:
        pause()
        return Evaluated(1.0, 1.0, VALIDATION_SAMPLES)

    def sample_losses(self, samples: Sequence[int], pause: Pause) -> list[float]:
        pause()
        return [1.0] * len(samples)


def build(config: Mapping[str, object]) -> Workload:
    """Raises WorkloadError, naming the key."""
    megabytes = config.get("megabytes", 1.0)
    if unknown := sorted(config.keys() - {"megabytes"}):
        raise WorkloadError(f"still has no config key {unknown[0]!r}: it has megabytes")
    if isinstance(megabytes, bool) or not isinstance(megabytes, int | float):
        raise WorkloadError(f"megabytes must be a number, got {megabytes!r}")
    if not 0 < megabytes < math.inf:
        raise WorkloadError(f"megabytes must be positive, got {megabytes!r}")
    return StillWorkload(max(1, round(megabytes * 1e6 / 4)))
