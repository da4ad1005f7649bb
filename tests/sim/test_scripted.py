from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.work import (
    FULL,
    MILLION,
    EvaluateJob,
    Inspection,
    InspectJob,
    Merged,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    Progress,
    RebuildJob,
    TrainJob,
    Verdict,
)
from p2pd.errors import RemoteError, WorkloadError
from p2pd.sim.liars import GARBAGE, Lie, LyingWorker
from p2pd.sim.run import run_seeded
from p2pd.sim.scripted import (
    SCHEMA,
    SHARD_SAMPLES,
    SPREAD,
    START,
    TARGET,
    TRAIN_SAMPLES,
    Kept,
    ScriptedMath,
    ScriptedWorker,
    Vector,
    load_vector,
)
from p2pd.sim.store import MemoryBlobs


async def start(blobs: MemoryBlobs) -> ArtifactId:
    return await blobs.put(ArtifactKind.HEAD, SCHEMA.id, encode(START))


def lease(base: ArtifactId) -> TrainJob:
    return TrainJob(1, base, (0, 1, 2), SHARD_SAMPLES, Progress(0, 0, 0, 0, 0), 5)


def merge_of(base: ArtifactId, *inputs: tuple[ArtifactId, int]) -> MergeJob:
    listed = tuple(
        MergeInput(UpdateId(bytes([n]) * 32), artifact, weight)
        for n, (artifact, weight) in enumerate(inputs)
    )
    rule, outer = MergeRule("mean", MILLION, 0), OuterRule("mean", MILLION, 0)
    return MergeJob(base, None, SCHEMA, listed, None, rule, outer)


def virtually(main: Any) -> None:
    async def bounded() -> None:
        await main(MemoryBlobs())

    assert run_seeded(0, bounded, 60.0)


def test_training_brings_the_vector_nearer_and_takes_time() -> None:
    async def main(blobs: MemoryBlobs) -> None:
        worker = ScriptedWorker(blobs, Random(1))
        result = await worker.train(lease(await start(blobs)))
        assert 0.5 <= trio.current_time() <= 3.0
        assert result.samples == 3 * SHARD_SAMPLES
        values = load_vector(blobs, result.artifact).values
        assert all(
            abs(goal - value) < abs(goal) for value, goal in zip(values, TARGET, strict=True)
        )

    virtually(main)


def test_a_workload_may_be_told_to_fail() -> None:
    async def main(blobs: MemoryBlobs) -> None:
        worker = ScriptedWorker(blobs, Random(1), failures=1.0)
        with pytest.raises(WorkloadError, match="step 3"):
            await worker.train(lease(await start(blobs)))

    virtually(main)


def test_private_losses_are_of_the_same_samples_for_the_same_seed() -> None:
    async def main(blobs: MemoryBlobs) -> None:
        head = await start(blobs)
        worker = ScriptedWorker(blobs, Random(1))
        one = await worker.evaluate(EvaluateJob(head, 5, 8))
        assert one == await worker.evaluate(EvaluateJob(head, 5, 8))
        other = await worker.evaluate(EvaluateJob(head, 6, 8))
        assert other.loss == one.loss
        assert abs(other.metric - one.metric) <= 2 * SPREAD
        assert other.private != one.private

    virtually(main)


def test_a_worker_in_doubt_finds_heads_far_worse_than_others_do() -> None:
    async def main(blobs: MemoryBlobs) -> None:
        head = await start(blobs)
        sure, unsure = (
            ScriptedWorker(blobs, Random(1)),
            ScriptedWorker(blobs, Random(1), doubts=1.0),
        )
        one = await sure.evaluate(EvaluateJob(head, 5, 8))
        other = await unsure.evaluate(EvaluateJob(head, 5, 8))
        assert (other.metric, other.loss) == (one.metric, one.loss)
        assert min(other.private) > 2 * max(one.private)

    virtually(main)


def test_the_merge_is_a_weighted_mean_and_is_told_of() -> None:
    seen: list[tuple[MergeJob, Merged]] = []

    async def main(blobs: MemoryBlobs) -> None:
        base = await start(blobs)
        ends = [
            await blobs.put(ArtifactKind.UPDATE, SCHEMA.id, encode(Vector((n, n, n, n))))
            for n in (0, 40)
        ]
        job = merge_of(base, (ends[0], 3), (ends[1], 1))
        merged = await ScriptedMath(blobs, Random(1), merged=lambda *all_: seen.append(all_)).merge(
            job
        )
        assert load_vector(blobs, merged.head).values == (10, 10, 10, 10)
        assert merged.clips == (FULL, FULL)
        assert seen == [(job, merged)]
        assert merged == await ScriptedMath(blobs, Random(2)).merge(job)

    virtually(main)


def test_what_is_no_vector_is_found_and_told_of() -> None:
    seen: list[Inspection] = []

    async def main(blobs: MemoryBlobs) -> None:
        base = await start(blobs)
        bad = await blobs.put(ArtifactKind.UPDATE, SCHEMA.id, GARBAGE)
        math = ScriptedMath(blobs, Random(1), inspected=seen.append)
        await math.self_test()
        for artifact in (base, bad):
            await math.inspect(InspectJob(artifact, base, SCHEMA))
        assert [one.verdict for one in seen] == [Verdict.ACCEPTED, Verdict.LAYOUT]
        assert seen[1].detail

    virtually(main)


@pytest.mark.parametrize("lie", list(Lie))
def test_a_lying_worker_lies_in_one_way(lie: Lie) -> None:
    async def main(blobs: MemoryBlobs) -> None:
        base = await start(blobs)
        worker = LyingWorker(ScriptedWorker(blobs, Random(1)), blobs, lie)
        first, second = await worker.train(lease(base)), await worker.train(lease(base))
        assert (blobs.payload(first.artifact) == GARBAGE) == (lie is Lie.GARBAGE)
        assert (first.samples > 3 * SHARD_SAMPLES) == (lie is Lie.GREED)
        assert (first.artifact == second.artifact) == (lie in (Lie.REPLAY, Lie.GARBAGE))
        assert (await worker.info()).train_samples == TRAIN_SAMPLES
        assert (await worker.evaluate(EvaluateJob(base, 1, 2))).finite

    virtually(main)


@pytest.mark.parametrize("momentum", [0, MILLION // 2])
def test_a_scripted_head_of_a_step_is_made_again_and_what_it_lost_is_kept(momentum: int) -> None:
    async def main(blobs: MemoryBlobs) -> None:
        lacking = MemoryBlobs()
        math = ScriptedMath(blobs, Random(0))
        base = await start(blobs)
        far = encode(Vector((1_000_000, 3, -5, 700)))
        update = await blobs.put(ArtifactKind.UPDATE, SCHEMA.id, far)
        outer = (
            OuterRule("nesterov", MILLION, momentum) if momentum else OuterRule("mean", MILLION, 0)
        )
        job = replace(merge_of(base, (update, 1)), head_codec="int8", optimizer=outer)
        merged = await math.merge(job)
        assert merged.step is not None
        assert merged.outer is not None
        kept = decode(Kept, blobs.payload(merged.outer)).parts
        assert len(kept) == 1 + bool(momentum)
        wanted = load_vector(blobs, update).values
        head = load_vector(blobs, merged.head).values
        if not momentum:
            assert tuple(a + b for a, b in zip(head, kept[-1], strict=True)) == wanted
            assert head != wanted
        for artifact in (base, merged.step.artifact):
            manifest = blobs.manifest(artifact)
            assert manifest is not None
            await lacking.put(manifest.kind, manifest.schema, blobs.payload(artifact))
        there = ScriptedMath(lacking, Random(1))
        await there.rebuild(RebuildJob(merged.head, merged.step, SCHEMA, "int8"))
        assert load_vector(lacking, merged.head) == load_vector(blobs, merged.head)
        with pytest.raises(RemoteError):
            await there.rebuild(RebuildJob(base, merged.step, SCHEMA, "int8"))

    virtually(main)
