"""Reported faults of tensors: buffers averaged wrongly, types that change, half precision, models that do not fit."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from p2pd.core.artifact import ArtifactKind
from p2pd.core.ids import ArtifactId, UpdateId
from p2pd.core.work import (
    MILLION,
    InspectJob,
    MergeInput,
    MergeJob,
    MergeRule,
    OuterRule,
    Schema,
    Verdict,
)
from p2pd.errors import WorkloadError
from p2pd.tensors.inspection import inspect
from p2pd.tensors.merge import Outputs, merge
from p2pd.workload.heads import read_head, write_state
from p2pd.workload.state import load_into, schema_of, state_of

State = dict[str, torch.Tensor]


class Files:
    """The artifacts of one model."""

    def __init__(self, directory: Path, schema: Schema) -> None:
        self.directory = directory
        self.schema = schema
        self.paths: dict[ArtifactId, Path] = {}
        self.count = 0

    def add(self, state: State, schema: Schema | None = None) -> ArtifactId:
        self.count += 1
        path = self.directory / f"{self.count}"
        schema = self.schema if schema is None else schema
        artifact = write_state(path, ArtifactKind.UPDATE, schema, state).id
        self.paths[artifact] = path
        return artifact

    def mean(self, base: State, rows: list[tuple[State, int]]) -> State:
        """The weighted mean as the network computes it."""
        inputs = tuple(
            MergeInput(UpdateId(bytes([n])), self.add(state), weight)
            for n, (state, weight) in enumerate(rows)
        )
        rule, outer = MergeRule("mean", MILLION, 0), OuterRule("mean", MILLION, 0)
        job = MergeJob(self.add(base), None, self.schema, inputs, None, rule, outer)
        out = self.directory / f"head{self.count}"
        merge(self.paths, job, Outputs.beside(out))
        return read_head(out, self.schema)


def convolutional() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    model.register_buffer("seen", torch.zeros(2, dtype=torch.int64))
    model.register_buffer("mask", torch.tensor([True, False]))
    return model


def test_the_mean_of_models_with_batch_norm_is_that_made_by_hand(tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = convolutional()
    rows: list[tuple[State, int]] = []
    for trainer, samples in enumerate((100, 200, 300)):
        model = convolutional()
        load_into(model, state_of(base))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(trainer + 2):  # another slice, and another number of batches
            inputs, labels = torch.randn(16, 1, 8, 8) + trainer, torch.randint(2, (16,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        rows.append((state_of(model), samples))
    head = Files(tmp_path, schema_of(base)).mean(state_of(base), rows)

    for name, tensor in head.items():
        if tensor.is_floating_point():
            exact = (
                torch.stack([state[name].double() * weight for state, weight in rows]).sum(0) / 600
            )
            assert torch.equal(tensor, exact.float()), name
    assert head["1.num_batches_tracked"].item() == 4, "of the one with the greatest weight"
    assert head["1.num_batches_tracked"].dtype is torch.int64
    assert head["mask"].tolist() == [True, False]
    load_into(base, head)
    base.eval()
    assert bool(torch.isfinite(base(torch.randn(4, 1, 8, 8))).all())


TYPES = [
    torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int8, torch.int16,
    torch.int32, torch.int64, torch.uint8, torch.bool,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_tensors_of_every_type_and_shape_cross_the_network_bit_for_bit(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    drawn = torch.randn(2, 3, 2, 3, 4) * 100
    five = drawn > 0 if dtype is torch.bool else drawn.abs().to(dtype)
    model = nn.Module()
    tensors = {
        "scalar": five[0, 0, 0, 0, 0].clone(),
        "nothing": five[:0],
        "five": five,
        "strided": five[0, 0].permute(2, 0, 1)[::2],
    }
    for name, tensor in tensors.items():
        model.register_buffer(name, tensor)
    schema = schema_of(model)
    write_state(tmp_path / "head", ArtifactKind.HEAD, schema, state_of(model))
    for name, tensor in read_head(tmp_path / "head", schema).items():
        assert tensor.dtype is dtype
        assert tensor.shape == tensors[name].shape
        assert torch.equal(tensor, tensors[name]), name


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_kinds_of_tensors_that_no_head_can_hold_are_refused_at_the_start() -> None:
    odd = {
        "sparse": torch.eye(3).to_sparse(),
        "complex64": torch.zeros(2, dtype=torch.complex64),
        "qint8": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    }
    for kind, tensor in odd.items():
        model = nn.Module()
        model.register_buffer("odd", tensor)
        with pytest.raises(WorkloadError, match=rf"odd is .*{kind}"):
            schema_of(model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_wide_and_rounded_once(tmp_path: Path, dtype: torch.dtype) -> None:
    def state(first: float, second: float) -> State:
        return {"w": torch.tensor([first, second], dtype=dtype)}

    model = nn.Module()
    model.register_parameter("w", nn.Parameter(state(0, 0)["w"]))
    files = Files(tmp_path, schema_of(model))
    ten = [(state(30_000, -30_000), 1) for _ in range(10)]
    assert torch.equal(files.mean(state(0, 0), ten)["w"], state(30_000, -30_000)["w"])

    small = [(state(1, 2), 1) for _ in range(9)] + [(state(3, 2), 9991)]
    head = files.mean(state(0, 0), small)["w"]
    assert torch.equal(head, torch.tensor([(9 + 3 * 9991) / 10_000, 2.0]).to(dtype))
    assert torch.equal(files.mean(state(0, 0), small[::-1])["w"], head)


def test_models_that_do_not_fit_are_rejected_one_by_one_and_the_others_merge(
    tmp_path: Path,
) -> None:
    def model(classes: int = 10, dtype: torch.dtype = torch.float32) -> nn.Module:
        return nn.Sequential(nn.Linear(4, classes, dtype=dtype))

    def renamed() -> nn.Module:
        wrong = nn.Module()
        wrong.register_module("output", model()[0])  # type: ignore[index]
        return wrong

    files = Files(tmp_path, schema_of(model()))
    base = files.add(state_of(model()))

    def judged(build: Callable[[], nn.Module]) -> tuple[Verdict, str]:
        odd = build()
        artifact = files.add(state_of(odd), schema_of(odd))
        found = inspect(files.paths, InspectJob(artifact, base, files.schema))
        return found.verdict, found.detail

    for build, words in (
        (lambda: model(11), "'0.bias'"),
        (renamed, "'0.bias' is missing"),
        (lambda: model(dtype=torch.float64), "F64"),
    ):
        verdict, detail = judged(build)
        assert verdict is Verdict.SCHEMA
        assert words in detail
    assert judged(model)[0] is Verdict.ACCEPTED
    good = [(state_of(model()), 1), (state_of(model()), 1)]
    head = files.mean(state_of(model()), good)
    assert torch.equal(
        head["0.bias"], (good[0][0]["0.bias"].double() + good[1][0]["0.bias"]).div(2).float()
    )


class Trap:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


def test_i08_a_pickle_from_a_peer_is_refused_and_not_loaded(tmp_path: Path) -> None:
    trap = tmp_path / "made"
    schema = schema_of(nn.Linear(2, 2))
    for zipped in (True, False):
        pickled = io.BytesIO()
        torch.save(
            {"weight": torch.zeros(2, 2), "trap": Trap(trap)},
            pickled,
            _use_new_zipfile_serialization=zipped,
        )
        path = tmp_path / f"pickle{zipped}"
        path.write_bytes(pickled.getvalue())
        job = InspectJob(ArtifactId(b"pickle"), ArtifactId(b"base"), schema)
        found = inspect({job.artifact: path}, replace(job))
        assert found.verdict is Verdict.LAYOUT
        with pytest.raises(WorkloadError, match="does not fit"):
            read_head(path, schema)
    assert not trap.exists()


@pytest.mark.parametrize("identical", [1, 3])
def test_the_next_head_of_identical_trainers_is_theirs_to_the_bit(
    tmp_path: Path, identical: int
) -> None:
    """With outer lr 1 and no momentum: a wrong sign, or a step that is rounded twice, would show."""
    torch.manual_seed(0)
    base, model = (nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)) for _ in range(2))
    model[0].half()
    base[0].half()
    files = Files(tmp_path, schema_of(model))
    trained = dict(state_of(model))
    head = files.mean(dict(state_of(base)), [(trained, 480)] * identical)
    assert head.keys() == trained.keys()
    assert all(torch.equal(head[name], trained[name]) for name in trained)
    assert not all(torch.equal(head[name], state_of(base)[name]) for name in trained)
