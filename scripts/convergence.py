"""Whether fleets learn as one process does: `python -m scripts.convergence`, then `-m scripts.convergence_page`.
What came of it is in docs/convergence.md.

Fleets are simulated ones that train in earnest (p2pd.lab). A run that is there is not made again, so that
they can be made some at a time. Units: samples, seconds.
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from p2pd.daemon.publish import MergeSettings, ScheduleSettings
from p2pd.lab.run import Course, train
from p2pd.workload.local import train_alone

SEEDS = range(5)
"""For the digits; one for what takes long."""
ALONE_POINTS = 12
AHEAD = 4
"""Trainers of the fleets that also train with lookahead 1."""
DIGITS, MNIST, BYTEGPT = (f"p2pd.workloads.{name}" for name in ("digits", "mnist", "bytegpt"))
PEER_BATCH, PEER_STEPS = 64, 20


@dataclass(frozen=True, slots=True)
class Case:
    """One fleet, and the name that its results go by."""

    name: str
    course: Course
    central: bool = True
    """Besides, one process with the batches of all trainers in one, on as many samples."""


@dataclass(frozen=True, slots=True)
class Task:
    """A workload, its batch, and for how many heads fleets of each size train it with default settings."""

    name: str
    workload: str
    batch: int
    heads: dict[int, int]
    config: dict[str, Any] = field(default_factory=dict)


def tasks(mnist: Path) -> tuple[Task, ...]:
    images = {"directory": str(mnist), "model": "batchnorm"}
    text = {"samples": 16384, "width": 32, "context": 32}
    return (
        Task("digits", DIGITS, 8, {1: 44, 4: 25, 8: 22}),
        Task("mnist", MNIST, 32, {1: 36, 4: 14, 8: 10}, images),
        Task("bytegpt", BYTEGPT, 16, {1: 22, 4: 11, 8: 8}, text),
    )


def cases(mnist: Path) -> Iterator[Case]:
    for task in tasks(mnist):
        for trainers, heads in task.heads.items():
            for seed in SEEDS if task.name == "digits" else (0,):
                config = {**task.config, "batch": task.batch, "seed": seed}
                plain = Course(
                    workload=task.workload,
                    config=config,
                    trainers=trainers,
                    heads=heads,
                    seed=seed,
                )
                yield Case(f"{task.name}-{trainers}-seed{seed}", plain)
                if trainers == AHEAD:
                    ahead = replace(plain, schedule=ScheduleSettings(lookahead=1))
                    yield Case(f"{task.name}-{trainers}-ahead-seed{seed}", ahead, central=False)
    yield from peers(mnist)
    yield from demos()


def peers(mnist: Path) -> Iterator[Case]:
    """The job that other systems were measured with: 4 workers, SGD, 20 steps of 64 a round, then the mean."""
    for model, heads in (("mlp", 25), ("cnn", 10)):
        config = {"directory": str(mnist), "model": model, "batch": PEER_BATCH, "half_life": 0}
        schedule = ScheduleSettings(
            shard_samples=PEER_BATCH, lease_shards=PEER_STEPS, max_lease_shards=PEER_STEPS
        )
        course = Course(
            workload=MNIST,
            config=config,
            trainers=4,
            heads=heads,
            schedule=schedule,
            merge=MergeSettings(rule="mean"),
        )
        yield Case(f"peers-{model}", course, central=False)


def demos() -> Iterator[Case]:
    """What `p2pd demo --trainers 4 --windows 14` trains on real daemons."""
    lease = -(-1437 // (16 * AHEAD))
    schedule = ScheduleSettings(shard_samples=16, lease_shards=lease, max_lease_shards=lease)
    for seed in SEEDS:
        course = Course(
            workload=DIGITS, trainers=4, validators=3, heads=14, schedule=schedule, seed=seed
        )
        yield Case(f"demo-seed{seed}", course, central=False)


def run(case: Case, results: Path) -> None:
    """One JSON line for each point."""
    started_s = monotonic()
    fleet = results / f"{case.name}.jsonl"
    if not fleet.exists():
        points = [asdict(point) for point in train(case.course).points]
        _keep(fleet, points)
        print(f"{case.name}: {points[-1]}, {monotonic() - started_s:.0f} s", flush=True)
    central = results / f"{case.name}-central.jsonl"
    if case.central and not central.exists():
        _keep(central, _central(case.course, _points(fleet)[-1]["samples"]))
        last = _points(central)[-1]
        print(f"{case.name} central: {last}, {monotonic() - started_s:.0f} s", flush=True)


def _central(course: Course, samples: int) -> list[dict[str, Any]]:
    """All trainers' batches in one, so that each step sees as many samples as a step of the fleet."""
    batch = course.config["batch"] * course.trainers
    config = {**course.config, "batch": batch}
    every = -(-samples // (ALONE_POINTS * batch)) * batch  # whole batches between measurements
    found = train_alone(
        course.workload, config, samples=samples, every=every, report=lambda point: None
    )
    return [asdict(point) for point in found.points]


def _keep(path: Path, points: Sequence[dict[str, Any]]) -> None:
    """A file that is there is whole."""
    aside = path.with_suffix(".part")
    aside.write_text("".join(f"{json.dumps(point)}\n" for point in points))
    aside.replace(path)


def _points(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    parser = ArgumentParser(prog="scripts.convergence")
    parser.add_argument("--results", type=Path, default=Path("local/convergence"))
    parser.add_argument("--mnist", type=Path, default=Path("mnist"), help="directory of IDX files")
    parser.add_argument("--only", default="", help="how the names of runs begin")
    parser.add_argument(
        "--within", type=float, default=1e9, help="begin none after so many seconds"
    )
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    started_s = monotonic()
    for case in cases(options.mnist.absolute()):
        if case.name.startswith(options.only) and monotonic() - started_s < options.within:
            run(case, options.results)


if __name__ == "__main__":
    main()
