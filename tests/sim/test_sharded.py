"""A fleet whose data come with its leases."""

from random import Random

import pytest
import trio

from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.errors import WorkloadError
from p2pd.sim.disk import Disk
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import FleetResult, run_fleet
from p2pd.sim.scripted import ScriptedWorker
from p2pd.sim.shape import FleetShape
from p2pd.sim.sharded import ReadingWorker, ShardedSubject
from p2pd.sim.store import MemoryBlobs

TRAINERS = ("trainer1", "trainer2", "trainer3")


def dealt(result: FleetResult, name: str) -> set[int]:
    """The files of all leases that this trainer was given, what was reserved for it as well."""
    found: set[int] = set()
    for decision in result.checkers.chain.values():
        lease = decision.state.plan.lease_of(result.peers[name])
        if lease is not None:  # a microshard is a file
            found.update(lease.shards, lease.reserved)
    return found


def test_a_trainer_fetches_the_files_of_its_leases_and_no_other() -> None:
    subject = ShardedSubject()
    result = run_fleet(0, FleetShape(windows=4, faults=FaultSet.NONE), subject)
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 4
    files = len(subject.shards.splits[0].sizes)
    for name in TRAINERS:
        assert subject.held[name] <= dealt(result, name)
        assert 6 < len(subject.held[name]) < files / 2


def test_ahead_of_a_decision_the_files_that_are_reserved_come_too() -> None:
    subject = ShardedSubject()
    result = run_fleet(0, FleetShape(windows=4, faults=FaultSet.NONE, lookahead=1), subject)
    assert result.checkers.violations == []
    for name in TRAINERS:
        assert subject.held[name] <= dealt(result, name)
        assert subject.ahead[name]


@pytest.mark.parametrize(("seed", "lookahead"), [(0, 0), (1, 1), (2, 0)])
def test_i02_it_comes_to_its_end_whatever_befalls_it(seed: int, lookahead: int) -> None:
    result = run_fleet(seed, FleetShape(windows=3, lookahead=lookahead), ShardedSubject())
    assert result.checkers.violations == []
    assert result.last.state.progress.heads == 3


def test_a_worker_says_what_it_misses() -> None:
    async def main() -> None:
        subject, blobs = ShardedSubject(), MemoryBlobs(Disk(Random(0)))
        worker = ReadingWorker(ScriptedWorker(blobs, Random(0)), blobs, "trainer1", subject)
        job = TrainJob(1, ArtifactId(bytes(32)), (5,), 16, Progress(0, 0, 0, 0, 0), 0)
        with pytest.raises(WorkloadError, match="data are not here"):
            await worker.train(job)

    trio.run(main)
