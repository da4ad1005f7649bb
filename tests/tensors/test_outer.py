"""The outer optimizer against its formulas, step after step."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import outer_schema
from p2pd.core.ids import ArtifactId
from p2pd.core.work import (
    MILLION,
    Merged,
    MergeJob,
    OuterRule,
    Schema,
    TensorSpec,
)
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors.files import TensorFile
from p2pd.tensors.merge import Outputs, merge
from p2pd.tensors.outer import LARGEST, Momentum, within
from tests.tensors.merge_bench import MEAN, OUTER, inputs_of, written

SGD = OuterRule("sgd", 500_000, 900_000)
NESTEROV = OuterRule("nesterov", 700_000, 900_000)
SCHEMA = Schema(
    (
        TensorSpec("count", "I64", (), True),
        TensorSpec("mean", "F32", (2,), True),
        TensorSpec("weight", "F32", (3,), False),
    )
)
F32_MAX = float(np.finfo(np.float32).max)


@dataclass
class Run:
    """Heads and outer states, one after the other."""

    root: Path
    schema: Schema = SCHEMA
    paths: dict[ArtifactId, Path] = field(default_factory=dict)
    count: int = 0

    def add(self, kind: ArtifactKind, schema: Schema, *arrays: Any) -> ArtifactId:
        self.count += 1
        path = self.root / str(self.count)
        artifact = written(path, kind, schema, *arrays)
        self.paths[artifact] = path
        return artifact

    def model(self, weight: list[float], mean: list[float], count: int = 7) -> ArtifactId:
        return self.add(ArtifactKind.UPDATE, self.schema, count, mean, weight)

    def merge(
        self, base: ArtifactId, outer: ArtifactId | None, updates: list[ArtifactId], rule: OuterRule
    ) -> Merged:
        inputs = inputs_of(updates, range(1, len(updates) + 1))
        self.count += 2
        head, state = self.root / str(self.count - 1), self.root / str(self.count)
        job = MergeJob(base, outer, self.schema, inputs, None, MEAN, rule)
        answer = merge(self.paths, job, replace(Outputs.beside(head), outer=state))
        merged, manifest, kept = answer.merged, answer.manifest, answer.outer
        assert manifest.id == merged.head
        assert (kept.id if kept else None) == merged.outer
        self.paths[merged.head] = head
        if kept is not None and merged.outer is not None:
            assert (kept.kind, kept.schema) == (ArtifactKind.OUTER, outer_schema(self.schema).id)
            self.paths[merged.outer] = state
        return merged

    def values(self, artifact: ArtifactId, index: int) -> list[float]:
        return [float(x) for x in TensorFile(self.paths[artifact]).values(index, slice(0, 3))]


def by_hand(
    base: float, steps: list[float], velocity: float, rule: OuterRule
) -> tuple[float, float]:
    """The formulas, with Python's own float64: the next value, not rounded, and the next velocity."""
    lr, mu = rule.lr / MILLION, rule.momentum / MILLION
    total, weights = 0.0, 0.0
    for number, step in enumerate(steps):
        total, weights = total + step * float(number + 1), weights + number + 1
    g = total / weights
    v = float(np.float32(velocity * mu + g))
    if rule.name == "nesterov":
        return base + (g + v * mu) * lr, v
    return base + (v if mu else g) * lr, v


@pytest.mark.parametrize("rule", [SGD, NESTEROV, replace(SGD, momentum=0)])
def test_i06_heads_and_velocities_follow_the_formulas_to_the_bit(
    tmp_path: Path, rule: OuterRule
) -> None:
    run = Run(tmp_path)
    chance = np.random.default_rng(4)
    weight, velocity = [1.0, -2.0, 1e-3], [0.0, 0.0, 0.0]
    head, outer = run.model(weight, [0.0, 0.0]), None
    for _ in range(5):
        rows = [
            [float(np.float32(x + y)) for x, y in zip(weight, chance.normal(size=3), strict=True)]
            for _ in range(3)
        ]
        merged = run.merge(head, outer, [run.model(row, [1.0, 2.0]) for row in rows], rule)
        for place in range(3):
            steps = [row[place] - weight[place] for row in rows]
            value, velocity[place] = by_hand(weight[place], steps, velocity[place], rule)
            weight[place] = float(np.float32(value))
        assert run.values(merged.head, 2) == weight
        assert (merged.outer is not None) == rule.keeps_state
        if merged.outer is not None:
            assert run.values(merged.outer, 0) == velocity
        head, outer = merged.head, merged.outer


def test_i04_another_state_before_is_another_head_and_another_state_after(tmp_path: Path) -> None:
    run = Run(tmp_path)
    base, update = run.model([1, 2, 3], [0, 0]), run.model([2, 3, 4], [0, 0])
    states = [run.add(ArtifactKind.OUTER, outer_schema(SCHEMA), [x, 0, 0]) for x in (0.0, 0.25)]
    found = [run.merge(base, state, [update], NESTEROV) for state in (None, *states)]
    assert found[0] == found[1]  # no state yet is a velocity of zero
    assert found[1].head != found[2].head
    assert found[1].outer != found[2].outer


def test_buffers_are_merged_as_values_whatever_the_optimizer(tmp_path: Path) -> None:
    run = Run(tmp_path)
    base = run.model([0, 0, 0], [0, 0], 1)
    updates = [run.model([1, 1, 1], [3.0, 6.0], 5), run.model([1, 1, 1], [6.0, 3.0], 9)]
    plain, moved = (run.merge(base, None, updates, rule) for rule in (OUTER, NESTEROV))
    assert run.values(moved.head, 1) == run.values(plain.head, 1) == [5.0, 4.0]
    for merged in (plain, moved):
        assert TensorFile(run.paths[merged.head]).stored(0).tolist() == [9]


def test_what_would_overflow_stays_readable_for_ever(tmp_path: Path) -> None:
    """Otherwise one promoted head, or state, could be read by nobody, and no height would end."""
    run = Run(tmp_path)
    head = run.model([F32_MAX, -F32_MAX, 0.0], [0, 0])
    outer = None
    for _ in range(3):
        update = run.model([F32_MAX, F32_MAX, F32_MAX], [0, 0])
        merged = run.merge(head, outer, [update], OuterRule("nesterov", 10 * MILLION, 999_999))
        assert merged.outer is not None
        assert np.isfinite(run.values(merged.head, 2)).all()
        assert np.isfinite(run.values(merged.outer, 0)).all()
        head, outer = merged.head, merged.outer
    assert run.values(head, 2)[2] == F32_MAX


@pytest.mark.parametrize("dtype", sorted(LARGEST))
def test_the_largest_value_of_each_type_is_one(dtype: str) -> None:
    assert within(np.array([1e308, -1e308, 5.0]), dtype).tolist() == [
        LARGEST[dtype],
        -LARGEST[dtype],
        5.0,
    ]


@given(st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32))
def test_plain_sgd_at_lr_one_takes_over_the_mean_step(base: float, step: float) -> None:
    optimizer = Momentum(1.0, 0.0, nesterov=False)
    zero = np.zeros(1)
    moved = optimizer.step(np.array([base]), np.array([step]), zero, "F32")
    assert moved.head[0] == base + step


def test_i08_a_state_that_is_none_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path)
    base = run.model([1, 2, 3], [0, 0])
    wrong = Schema((TensorSpec("weight", "F32", (4,), False),))
    with pytest.raises(RemoteError, match="shape"):
        run.merge(base, run.add(ArtifactKind.OUTER, wrong, [0] * 4), [base], NESTEROV)
    poisoned = run.add(ArtifactKind.OUTER, outer_schema(SCHEMA), [0, np.nan, 0])
    with pytest.raises(RemoteError, match="not finite"):
        run.merge(base, poisoned, [base], NESTEROV)
    with pytest.raises(LocalError, match="outer mean keeps no state"):
        run.merge(base, poisoned, [base], OUTER)
