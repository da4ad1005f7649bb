"""The same training alone, in one process: what a fleet is to be compared with.

Units: samples, optimizer steps, seconds.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from p2pd.core.ids import ID_BYTES
from p2pd.core.permutation import shard_at
from p2pd.errors import WorkloadError
from p2pd.workload.answers import described, evaluated_of, trained_of
from p2pd.workload.contract import Lease
from p2pd.workload.pipelines import leased
from p2pd.workload.session import build_workload

SEED_BITS = 64


@dataclass(frozen=True, slots=True)
class Point:
    """How good the model was after so many samples."""

    samples: int
    steps: int
    train_loss: float
    """Mean since the point before; 0 at the first one."""
    metric: float
    loss: float
    """Mean over the validation set."""
    seconds: float


@dataclass(frozen=True, slots=True)
class AloneResult:
    metric: str
    higher_is_better: bool
    train_samples: int
    points: tuple[Point, ...]
    """Before the first step, after each stretch, and at the end."""


def train_alone(
    module: str,
    config: Mapping[str, Any],
    *,
    samples: int,
    every: int,
    report: Callable[[Point], None],
) -> AloneResult:
    """Trains on so many samples, epoch after epoch, and evaluates after each stretch of `every`.

    Raises:
        WorkloadError: a count is not positive, or the workload failed; besides, what it raises.
    """
    if samples < 1 or every < 1:
        raise WorkloadError("samples and every must be positive")
    started_s = monotonic()
    workload = build_workload(module, dict(config))
    train_samples, _, metric, higher_is_better = described(workload)
    chance = random.Random(int(config.get("seed", 0)))
    points: list[Point] = []

    def measure(done: int, steps: int, train_loss: float) -> None:
        result = evaluated_of(workload.evaluate(_never))
        if not (math.isfinite(result.metric) and math.isfinite(result.loss)):
            raise WorkloadError(
                f"after {done} samples {metric} is {result.metric} and the loss"
                f" {result.loss}: lower the learning rate"
            )
        seconds = monotonic() - started_s
        points.append(Point(done, steps, train_loss, result.metric, result.loss, seconds))
        report(points[-1])

    measure(0, 0, 0.0)
    done = steps = 0
    for stretch in _stretches(train_samples, samples, every, chance):
        size = len(stretch)
        lease = Lease(stretch, steps, chance.getrandbits(SEED_BITS), _never)
        with leased(workload.pipeline, lease):
            trained = trained_of(workload.train(lease), size)
        done, steps = done + trained.samples, steps + trained.steps
        measure(done, steps, trained.loss)
    return AloneResult(metric, higher_is_better, train_samples, tuple(points))


def _stretches(
    train_samples: int, samples: int, every: int, chance: random.Random
) -> Iterator[list[int]]:
    """Consecutive pieces of one permutation per epoch; a piece may reach into the next epoch.

    Computed place by place, as a network deals its microshards: a stream may be longer than memory.
    """
    place = 0
    key = chance.randbytes(ID_BYTES)
    while samples > 0:
        size = min(every, samples)
        places = range(place, place + size)
        yield [shard_at(key, *divmod(one, train_samples), train_samples) for one in places]
        place += size
        samples -= size


def _never() -> None:
    """Nobody calls this training off."""
