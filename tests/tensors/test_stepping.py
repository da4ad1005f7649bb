"""Heads as int8 steps: what they are, that nothing is lost for good, and that they are made again to the bit."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from p2pd.core.artifact import ArtifactKind
from p2pd.core.codecs import is_trained, outer_schema, update_schema
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.work import (
    MILLION,
    Merged,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    RebuildJob,
    Schema,
    TensorSpec,
)
from p2pd.errors import LocalError, RemoteError
from p2pd.tensors.files import TensorFile, write_artifact
from p2pd.tensors.formats import FORMATS, decode, encode
from p2pd.tensors.merge import Outputs, merge
from p2pd.tensors.stepping import rebuild, stepped

MEAN = MergeRule("mean", MILLION, 0)
RULES = (
    MEAN,
    MergeRule("norm_clipped_mean", 900_000, 0),
    MergeRule("trimmed_mean", MILLION, 200_000),
)
PLAIN, NESTEROV = OuterRule("mean", MILLION, 0), OuterRule("nesterov", 700_000, 900_000)
MODEL = Schema(
    (
        TensorSpec("a", "F32", (300,), False),
        TensorSpec("a.b", "F32", (3, 100), False),  # its scales stand before those of a
        TensorSpec("count", "I64", (2,), True),
        TensorSpec("double", "F64", (70,), False),
        TensorSpec("half", "F16", (40,), False),
        TensorSpec("none", "F32", (0,), False),
        TensorSpec("running", "F32", (5,), True),
        TensorSpec("short", "BF16", (20,), False),
    )
)


@dataclass
class Bench:
    directory: Path
    schema: Schema = MODEL
    paths: dict[ArtifactId, Path] = field(default_factory=dict)
    count: int = 0

    def path(self) -> Path:
        self.count += 1
        return self.directory / str(self.count)

    def model(self, seed: int, size: float = 1.0) -> ArtifactId:
        chance = np.random.default_rng(seed)
        return self.add(
            {
                tensor.name: encode(
                    chance.normal(size=tensor.shape).reshape(-1) * size, tensor.dtype
                )
                if FORMATS[tensor.dtype].floating
                else np.full(tensor.shape, seed)
                for tensor in self.schema.tensors
            }
        )

    def add(
        self, arrays: dict[str, np.ndarray], kind: ArtifactKind = ArtifactKind.HEAD
    ) -> ArtifactId:
        path = self.path()
        shaped = {t.name: arrays[t.name].reshape(t.shape) for t in self.schema.tensors}
        artifact = write_artifact(path, kind, self.schema, shaped).id
        self.paths[artifact] = path
        return artifact

    def job(
        self, base: ArtifactId, updates: list[ArtifactId], outer: ArtifactId | None
    ) -> MergeJob:
        inputs = tuple(
            MergeInput(UpdateId(bytes([number])), update, 3 + number)
            for number, update in enumerate(updates)
        )
        return MergeJob(base, outer, self.schema, inputs, None, MEAN, PLAIN, head_codec="int8")

    def merge(self, job: MergeJob, chunk_elements: int = 2**16, threads: int = 1) -> Merged:
        outputs = Outputs.beside(self.path())
        answer = merge(self.paths, job, outputs, chunk_elements=chunk_elements, threads=threads)
        merged = answer.merged
        assert answer.step is not None
        assert answer.outer is not None
        assert merged.step is not None
        assert merged.outer == answer.outer.id
        assert (merged.step.base, merged.step.artifact) == (job.base, answer.step.id)
        assert answer.step.schema == update_schema(self.schema, "int8").id
        assert answer.outer.schema == outer_schema(self.schema, job.state_parts).id
        self.paths[merged.head] = outputs.head
        self.paths[merged.outer] = outputs.outer
        self.paths[merged.step.artifact] = outputs.step
        return merged

    def values(self, artifact: ArtifactId, name: str) -> np.ndarray:
        file = TensorFile(self.paths[artifact])
        index = [tensor.name for tensor in file.tensors].index(name)
        return decode(file.stored(index), file.tensors[index].dtype)

    def rebuild(self, merged: Merged, base: ArtifactId | None = None) -> Path:
        assert merged.step is not None
        step = merged.step if base is None else replace(merged.step, base=base)
        path = self.path()
        assert (
            rebuild(self.paths, RebuildJob(merged.head, step, self.schema, "int8"), path).id
            == merged.head
        )
        return path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("outer", [PLAIN, NESTEROV], ids=lambda outer: outer.name)
def test_i06_a_head_is_its_base_and_a_decoded_step_and_is_made_of_them_to_the_bit(
    tmp_path: Path, rule: MergeRule, outer: OuterRule
) -> None:
    bench = Bench(tmp_path)
    head, state = bench.model(0), None
    for window in range(3):
        updates = [bench.model(10 * window + number + 1, 1.01) for number in range(4)]
        job = replace(bench.job(head, updates, state), rule=rule, optimizer=outer)
        merged = bench.merge(job)
        assert bench.rebuild(merged).read_bytes() == bench.paths[merged.head].read_bytes()
        assert merged.step is not None
        for tensor in filter(is_trained, MODEL.tensors):
            numbers = bench.values(merged.step.artifact, tensor.name)
            scales = bench.values(merged.step.artifact, f"{tensor.name}/scale")
            steps = numbers * np.repeat(scales, 256)[: len(numbers)]
            wanted = encode(bench.values(head, tensor.name) + steps, tensor.dtype)
            assert (bench.values(merged.head, tensor.name) == decode(wanted, tensor.dtype)).all()
        for name in ("count", "running"):
            travels = bench.values(merged.step.artifact, name)
            assert (travels == bench.values(merged.head, name)).all()
        head, state = merged.head, merged.outer


def test_i06_the_bits_of_a_head_and_its_step_do_not_depend_on_chunks_or_threads(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    updates = [bench.model(number, 1.01) for number in (1, 2, 3)]
    first = bench.merge(replace(bench.job(bench.model(0), updates, None), optimizer=NESTEROV))
    job = replace(bench.job(first.head, updates, first.outer), optimizer=NESTEROV)
    found = {
        bench.merge(job, chunk_elements, threads)
        for chunk_elements, threads in ((1, 1), (300, 2), (2**16, 4))
    }
    assert len(found) == 1


ONE = Schema((TensorSpec("weight", "F32", (256,), False),))


@pytest.mark.parametrize("fed", [True, False])
def test_what_a_step_does_not_say_is_in_later_ones(tmp_path: Path, fed: bool) -> None:
    """One parameter of a block moves so much that the others' steps round to nothing, window after window.

    With what was left before they arrive; without it the heads stay behind for good.
    """
    bench = Bench(tmp_path, ONE)
    small, windows = np.linspace(1e-4, 3e-3, 255), 40
    head, state = bench.add({"weight": np.zeros(256, np.float32)}), None
    for window in range(windows):
        moved = bench.values(head, "weight") + np.append(1.0 if window % 2 else -1.0, small)
        merged = bench.merge(
            bench.job(head, [bench.add({"weight": moved.astype(np.float32)})], state)
        )
        head, state = merged.head, merged.outer if fed else None
    behind = np.abs(bench.values(head, "weight")[1:] - windows * small)
    assert bool(behind.max() < 1 / 127) is fed
    assert bool(behind.max() > 0.1) is not fed


def test_i08_steps_that_no_scale_holds_saturate_instead_of_stopping_every_merge(
    tmp_path: Path,
) -> None:
    """One update could else keep a network from ever agreeing on a head again."""
    bench = Bench(tmp_path, Schema((TensorSpec("weight", "F64", (300,), False),)))
    base, far = (bench.add({"weight": np.full(300, value)}) for value in (0.0, 2.0**890))
    merged = bench.merge(bench.job(base, [far], None))
    again = bench.merge(bench.job(merged.head, [base], merged.outer))
    for made in (merged, again):
        assert np.isfinite(bench.values(made.head, "weight")).all()
        bench.rebuild(made)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F64"])
def test_a_step_says_all_but_half_a_unit(dtype: str) -> None:
    chance = np.random.default_rng(1)
    base = decode(encode(chance.normal(size=500), dtype), dtype)
    wanted = decode(encode(base + chance.normal(size=500) * 0.01, dtype), dtype)
    made = stepped(base, wanted, np.zeros(500), dtype)
    head, left = decode(made.head, dtype), decode(made.left, "F32")
    assert np.abs(head + left - wanted).max() < 1e-8
    for place in (0, 300, 499):
        exact = Fraction(base[place]) + int(made.numbers[place]) * Fraction(
            float(made.scales[place // 256])
        )
        assert head[place] == decode(encode(np.array([float(exact)]), dtype), dtype)[0]


def test_i04_another_base_or_another_step_makes_another_head_and_leaves_no_file(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    base, other = bench.model(0), bench.model(1)
    merged = bench.merge(bench.job(base, [bench.model(2, 1.01)], None))
    with pytest.raises(RemoteError, match="does not come out of its step"):
        bench.rebuild(merged, other)
    assert not (tmp_path / str(bench.count)).exists()
    assert merged.step is not None
    bench.paths[merged.step.artifact] = bench.paths[base]
    with pytest.raises(RemoteError, match=r"artifact .*: tensor 'a' is F32, the schema says I8"):
        bench.rebuild(merged)
    del bench.paths[merged.step.artifact]
    with pytest.raises(LocalError, match="no file was named"):
        bench.rebuild(merged)
