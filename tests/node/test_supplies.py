from dataclasses import replace

import pytest
import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId
from p2pd.core.revision import DataSpec
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import RemoteError, UnreachableError, WorkloadError
from p2pd.node.supplies import Supplies, supplied
from tests.core.builders import setting_of
from tests.node.data_bench import SET, VALID_FILES, data_of, give, held
from tests.node.transfer_bench import Bench, run


def setting(samples: int = 32, each: int = 4, lookahead: int = 0) -> Setting:
    plain = setting_of(lookahead=lookahead)
    data = DataSpec("sharded", samples, each, SET.id.hex())
    return replace(plain, revision=replace(plain.revision, data=data))


class Idle:
    """Port Worker: notes that it was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def info(self) -> WorkloadInfo:
        self.asked.append("info")
        raise WorkloadError("asked")

    async def train(self, job: TrainJob) -> TrainResult:
        self.asked.append(job)
        raise WorkloadError("asked")

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        self.asked.append(job)
        raise WorkloadError("asked")


def test_a_lease_brings_the_files_of_its_microshards_until_it_is_decided() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        supplies = Supplies(data_of(alice), setting(each=6))
        await supplies.bring(3, (1, 4))  # samples 6 to 11 and 24 to 29
        assert held(alice) == [1, 2, 6, 7]
        pinned = SET.splits[0].manifest(1).id
        supplies.decided(2)
        assert not await alice.blobs.drop(pinned)
        supplies.decided(3)
        assert await alice.blobs.drop(pinned)

    run(scenario)


def test_with_lookahead_an_update_may_be_late_and_its_data_stay_as_long() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        supplies = Supplies(data_of(alice), setting(lookahead=1))
        await supplies.bring(3, (1,))
        supplies.decided(3)
        assert not await alice.blobs.drop(SET.splits[0].manifest(1).id)
        supplies.decided(4)
        assert await alice.blobs.drop(SET.splits[0].manifest(1).id)

    run(scenario)


def test_data_that_do_not_come_in_the_time_of_a_window_are_said_with_the_reason() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await giver.blobs.put(ArtifactKind.SHARD_SET, SET.manifest.schema, SET.encoded)
        await bench.link(alice, [giver])
        start_s = trio.current_time()
        with pytest.raises(UnreachableError, match=r"1 microshard did not come.*not served here"):
            await Supplies(data_of(alice), setting()).bring(3, (1,))
        window_s = setting().revision.schedule.deadline_ms / 1000
        assert trio.current_time() - start_s == pytest.approx(window_s)

    run(scenario)


def test_a_lease_that_is_given_back_keeps_no_room() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        wanted = setting()
        supplies = Supplies(data_of(alice), wanted)
        with trio.CancelScope() as scope:
            scope.cancel()
            await supplies.bring(3, (1,))
        await supplies.bring(3, (2,))
        missing = SET.splits[0].manifest(3).id
        await giver.blobs.drop(missing)
        with pytest.raises(UnreachableError):
            await supplies.bring(3, (2, 3))
        assert await alice.blobs.drop(missing)  # its place in the store is free again
        assert not await alice.blobs.drop(SET.splits[0].manifest(2).id)  # of the other lease

    run(scenario)


def test_another_set_than_the_revision_was_published_with_is_refused() -> None:
    async def scenario(bench: Bench) -> None:
        alice = await bench.start("alice")
        await give(alice)
        supplies = Supplies(data_of(alice), setting(samples=33))
        with pytest.raises(RemoteError, match=r"has 32 samples, the revision says 33"):
            await supplies.bring(3, (1,))
        worker = supplied(Idle(), supplies, setting(samples=33))
        with pytest.raises(WorkloadError, match="the revision says 33"):
            await worker.info()

    run(scenario)


def test_a_worker_is_built_with_the_set_and_evaluates_with_all_that_is_for_validation() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice = await bench.start("giver"), await bench.start("alice")
        await give(giver)
        await bench.link(alice, [giver])
        idle, wanted = Idle(), setting()
        worker = supplied(idle, Supplies(data_of(alice), wanted), wanted)
        with pytest.raises(WorkloadError, match="asked"):
            await worker.info()
        assert alice.blobs.has(SET.id)
        assert alice.blobs.held(ArtifactKind.SHARD) == ()
        job = EvaluateJob(ArtifactId(bytes(32)), 0, 1)
        with pytest.raises(WorkloadError, match="asked"):
            await worker.evaluate(job)
        assert len(alice.blobs.held(ArtifactKind.SHARD)) == VALID_FILES
        assert held(alice) == []
        assert idle.asked == ["info", job]

    run(scenario)


def test_validation_data_that_do_not_come_are_said() -> None:
    async def scenario(bench: Bench) -> None:
        alice = await bench.start("alice")
        await alice.blobs.put(ArtifactKind.SHARD_SET, SET.manifest.schema, SET.encoded)
        idle, wanted = Idle(), setting()
        worker = supplied(idle, Supplies(data_of(alice), wanted), wanted)
        with pytest.raises(WorkloadError, match="validation data did not come within"):
            await worker.evaluate(EvaluateJob(ArtifactId(bytes(32)), 0, 1))
        assert idle.asked == []

    run(scenario)


def test_where_every_node_has_the_data_nothing_is_brought() -> None:
    async def scenario(bench: Bench) -> None:
        alice, idle, plain = await bench.start("alice"), Idle(), setting_of()
        supplies = Supplies(data_of(alice), plain)
        assert supplied(idle, supplies, plain) is idle
        await supplies.bring(3, (1,))

    run(scenario)
