"""Real training, real merges, the real protocol; digits only."""

import itertools

import pytest
import torch

from p2pd.core.work import MILLION
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    ScheduleSettings,
    UpdateSettings,
)
from p2pd.lab.run import Course, Trained, train
from p2pd.workload.contract import Lease, Workload
from p2pd.workload.local import train_alone
from p2pd.workload.session import build_workload

DIGITS = "p2pd.workloads.digits"
TRAINERS = 4
SHARD = 3
"""1437 samples are 479 such microshards: none is shorter."""
BATCH = 9
ONE_STEP = Course(
    workload=DIGITS,
    config={"batch": BATCH},
    trainers=TRAINERS,
    heads=16,
    schedule=ScheduleSettings(
        shard_samples=SHARD, lease_shards=BATCH // SHARD, max_lease_shards=BATCH // SHARD
    ),
    merge=MergeSettings(rule="mean"),
    canary=CanarySettings(accept=1000.0, reject=2000.0),
)
DIGIT_4 = 1e-4
POINTS_APART = 0.005
"""Of accuracy."""


def never() -> None:
    pass


def leased(trained: Trained) -> list[tuple[int, list[int]]]:
    """Of each window: the steps before it, and the samples of all its leases."""
    windows = []
    for height, decision in sorted(trained.chain.items()):
        roster, after = decision.state.plan.roster, trained.chain.get(height + 1)
        if roster and after is not None:
            assert after.state.progress.heads == decision.state.progress.heads + 1
            shards = [shard for lease in roster for shard in lease.shards]
            samples = [shard * SHARD + n for shard in shards for n in range(SHARD)]
            windows.append((decision.state.progress.steps, samples))
    return windows


def in_large_batches(windows: list[tuple[int, list[int]]]) -> tuple[Workload, list[float]]:
    """The same samples, those of each window in one step of one process; the loss after each."""
    workload = build_workload(DIGITS, {"batch": BATCH * TRAINERS})
    losses = []
    for steps, samples in windows:
        assert len(samples) == BATCH * TRAINERS
        assert workload.train(Lease(samples, steps, 0, never)).steps == 1
        losses.append(workload.evaluate(never).loss)
    return workload, losses


def test_the_mean_of_single_steps_is_large_batch_sgd_to_four_digits() -> None:
    torch.set_num_threads(1)
    trained = train(ONE_STEP)
    workload, losses = in_large_batches(leased(trained))
    assert [point.loss for point in trained.points[1:]] == pytest.approx(losses, abs=DIGIT_4 / 2)
    assert trained.points[-1].steps == ONE_STEP.heads
    assert round(trained.points[-1].metric * MILLION) == round(
        workload.evaluate(never).metric * MILLION
    )


def test_a_fleet_of_four_learns_the_digits_as_one_process_does_with_their_batch() -> None:
    torch.set_num_threads(1)
    trained = train(Course(workload=DIGITS, trainers=TRAINERS, heads=14))
    last = trained.points[-1]
    assert len(trained.points) == 15
    alone = train_alone(
        DIGITS, {"batch": 8 * TRAINERS}, samples=last.samples, every=last.samples, report=print
    )
    assert last.metric > alone.points[-1].metric - POINTS_APART


def test_a_fleet_that_looks_ahead_and_rounds_learns_from_what_was_reserved() -> None:
    torch.set_num_threads(1)
    trained = train(
        Course(
            workload=DIGITS,
            trainers=2,
            validators=3,
            heads=6,
            schedule=ScheduleSettings(lookahead=1),
            update=UpdateSettings(codec="int8"),
        )
    )
    plans = [trained.chain[height].state.plan for height in sorted(trained.chain)]
    gone_on = [
        lease.peer
        for before, plan in itertools.pairwise(plans)
        for lease in plan.roster
        if (old := before.lease_of(lease.peer)) and old.reserved == lease.shards
    ]
    assert len(gone_on) >= 2 * 4
    assert trained.points[-1].metric > 0.85
