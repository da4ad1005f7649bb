"""One way to travel, tried: `python -m p2pd.bench.communication_course JSON`, the fields of Trial.

Four trainers and three validators train a real workload on the simulator's network: real updates, merges and heads,
the protocol's own messages. Prints one JSON object, of Trial.run.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from p2pd.core.codecs import is_trained
from p2pd.core.decision import Decision, Outcome
from p2pd.core.encoding import decode
from p2pd.core.messages import Choices, Update
from p2pd.daemon.publish import CanarySettings, ScheduleSettings, UpdateSettings
from p2pd.errors import LocalError
from p2pd.lab.run import Course, Trained, train

TRAINERS, VALIDATORS = 4, 3
JOINING, ENDING = 1, 1
"""Heads at the beginning, when nodes come together, and at the end, after which nobody fetches, that do not count."""
SETTLE_S = 60.0
"""Virtual, like all times here: by then all trainers are there, and begin together."""
GRADIENT_BYTES = 4
ANYTHING = CanarySettings(samples=1, accept=1000.0, reject=2000.0)
"""What is promoted must not hang on the draw of a few samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    workload: str
    config: Mapping[str, Any]
    batch: int
    steps: int
    """Of a window."""
    heads: int
    codec: str
    head_codec: str
    seed: int

    def run(self) -> dict[str, float]:
        schedule = ScheduleSettings(
            shard_samples=self.batch,
            lease_shards=self.steps,
            max_lease_shards=self.steps,
            settle_s=SETTLE_S,
        )
        course = Course(
            workload=self.workload,
            config=self.config,
            trainers=TRAINERS,
            validators=VALIDATORS,
            heads=self.heads,
            schedule=schedule,
            update=UpdateSettings(codec=self.codec, head_codec=self.head_codec),
            canary=ANYTHING,
            seed=self.seed,
        )
        return measured(train(course), self.steps)


def measured(trained: Trained, steps: int) -> dict[str, float]:
    """Bytes per window and trainer, of windows that were whole.

    Raises:
        LocalError: there is none.
    """
    schema = trained.revision.schema
    gradient = GRADIENT_BYTES * sum(prod(one.shape) for one in schema.tensors if is_trained(one))
    promoted = [
        trained.chain[height]
        for height in sorted(trained.chain)
        if trained.chain[height].header.outcome is Outcome.PROMOTED
    ][JOINING:]
    updates = [one for decision in promoted for one in _updates(decision) if one.steps == steps]
    counted = promoted[: len(promoted) - ENDING]
    alone = any(len(one.state.plan.roster) < TRAINERS for one in counted)
    if len(counted) < 2 or alone or not updates:
        raise LocalError("too few windows to measure: more of them")
    first, last = counted[0], counted[-1]
    taken = last.state.progress.steps - first.state.progress.steps
    names = [f"trainer{number + 1}" for number in range(TRAINERS)]
    wire = [trained.traffic.between(name, first, last).total_bytes for name in names]
    return {
        "loss": trained.points[-1].loss,
        "parameters": gradient / GRADIENT_BYTES,
        "gradients_bytes": gradient * steps,
        "update_bytes": sum(one.size_bytes for one in updates) / len(updates),
        # Source: Patarasuk and Yuan, 2009: each sends 2 (n - 1) / n of what is reduced, and receives as much.
        "reduced_bytes": 2 * (TRAINERS - 1) / TRAINERS * gradient * steps,
        "wire_bytes": sum(wire) / len(wire) / (taken / steps),
    }


def _updates(decision: Decision) -> Iterator[Update]:
    if decision.choices:
        for candidate in decode(Choices, decision.choices).cohort:
            yield candidate.update.content


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    (text,) = arguments
    sys.stdout.write(json.dumps(Trial(**json.loads(text)).run()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
