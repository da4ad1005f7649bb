"""Trainers that die and come back in time: a fleet that trains in earnest has the same heads as if nothing had been."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
import torch
import trio

from p2pd.core.decision import Outcome
from p2pd.core.ids import ArtifactId
from p2pd.daemon.outer import OuterSettings
from p2pd.daemon.publish import ScheduleSettings, UpdateSettings
from p2pd.lab.run import Course, TensorSubject
from p2pd.ports import Worker
from p2pd.sim.faults import Crash, FaultSet
from p2pd.sim.fleet import SimFleet
from p2pd.sim.lives import Life
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FleetShape

LIMIT_S = 1000.0
SEED = 3
COURSE = Course(
    workload="p2pd.workloads.digits",
    config={"hidden": 8},
    trainers=2,
    heads=6,
    schedule=ScheduleSettings(shard_samples=32, lease_shards=2, max_lease_shards=2),
    update=UpdateSettings(codec="int8"),
    outer=OuterSettings(rule="nesterov", lr=0.7, momentum=0.5),
    sample_s=(0.0675, 0.0675),  # a trainer that is back takes as long, and says so
)
AWAY_S = 0.3


@dataclass(frozen=True, slots=True)
class Seen:
    heads: dict[int, tuple[ArtifactId, ArtifactId | None]]
    """And the outer state, by height."""
    lives: int
    """Of the trainers."""


class Forgetful(TensorSubject):
    """Whose trainers lose what they kept whenever they start."""

    def worker(self, life: Life, dice: Random, doubts: float) -> Worker:
        shutil.rmtree(self._shelf.directory / life.name, ignore_errors=True)
        return super().worker(life, dice, doubts)


def lived(
    directory: Path, course: Course, kills: int, subject_of: type[TensorSubject] = TensorSubject
) -> Seen:
    """Each trainer is killed so many times, at instants of its own, and is back at once."""
    torch.set_num_threads(1)
    directory.mkdir()
    found: list[Seen] = []
    shape = FleetShape(
        validators=1,
        quorum=1,
        trainers=course.trainers,
        reducers=0,
        windows=course.heads,
        faults=FaultSet.NONE,
    )

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(SEED, shape, nursery, subject_of(course, directory))
            fleet.faults = [
                Crash(at_s, at_s + AWAY_S, f"trainer{number}", silent=False)
                for number, start_s, step_s in ((1, 7.0, 3.7), (2, 9.0, 4.9))
                for at_s in (start_s + step_s * n for n in range(kills))
            ]
            assert await fleet.run()
            fleet.end()
            assert not fleet.checkers.violations
            chain = fleet.checkers.chain
            heads = {
                height: (chain[height].head, chain[height].header.outer)
                for height in sorted(chain)
                if chain[height].header.outcome is Outcome.PROMOTED
            }
            lives = sum(fleet.lives[f"trainer{number}"].lives for number in (1, 2))
            found.append(Seen(heads, lives))
            nursery.cancel_scope.cancel()

    assert run_seeded(SEED, main, LIMIT_S)
    return found[0]


@pytest.mark.parametrize("lookahead", [0, 1])
def test_i10_restarts_that_miss_no_decision_change_no_bit_of_any_head(
    tmp_path: Path, lookahead: int
) -> None:
    course = replace(COURSE, schedule=replace(COURSE.schedule, lookahead=lookahead))
    steady = lived(tmp_path / "steady", course, 0)
    restarted = lived(tmp_path / "restarted", course, 4)
    assert (steady.lives, restarted.lives) == (2, 2 + 8)
    assert len(steady.heads) == 1 + COURSE.heads  # with that of genesis
    assert restarted.heads == steady.heads


def test_without_what_trainers_keep_the_heads_would_be_others(tmp_path: Path) -> None:
    steady = lived(tmp_path / "steady", COURSE, 0)
    forgetful = lived(tmp_path / "forgetful", COURSE, 4, Forgetful)
    assert forgetful.heads != steady.heads
