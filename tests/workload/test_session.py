import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.ids import ArtifactId
from p2pd.core.work import EvaluateJob, Progress, TrainJob
from p2pd.errors import WorkloadError
from p2pd.io.shard_writer import Source, write_set
from p2pd.tensors.files import TensorFile, write_artifact
from p2pd.workload.places import data_in
from p2pd.workload.protocol import BuildCall, Done, EvaluateCall, InitialCall, LookCall, TrainCall
from p2pd.workload.session import Session, leased_samples, millionths, private_samples

BASE = ArtifactId(bytes(32))
DIGITS = BuildCall("p2pd.workloads.digits", '{"hidden": 8, "seed": 4}', 1)


def never() -> None:
    pass


def job(shards: tuple[int, ...] = (0, 3), seed: int = 2**64 - 1) -> TrainJob:
    return TrainJob(1, BASE, shards, 32, Progress(0, 0, 0, 0, 0), seed)


def initial(session: Session, path: Path) -> bytes:
    session.initial(InitialCall(os.fsencode(path)))
    return os.fsencode(path)


def train(session: Session, base: bytes, output: Path, work: TrainJob | None = None) -> Done:
    return session.train(TrainCall(work or job(), base, os.fsencode(output)), never)


def test_the_first_head_depends_on_module_and_config_alone(tmp_path: Path) -> None:
    session = Session(DIGITS)
    torch.manual_seed(99)
    first = session.initial(InitialCall(os.fsencode(tmp_path / "first")))
    again = Session(DIGITS).initial(InitialCall(os.fsencode(tmp_path / "again")))
    other_seed = BuildCall(DIGITS.module, '{"hidden": 8, "seed": 5}', 1)
    other = Session(other_seed).initial(InitialCall(os.fsencode(tmp_path / "other")))
    assert first == again
    assert first.kind == ArtifactKind.HEAD
    assert first.id != other.id
    assert first == manifest_of(
        ArtifactKind.HEAD, session.info().schema.id, (tmp_path / "first").read_bytes()
    )


def test_the_first_head_is_the_same_after_training(tmp_path: Path) -> None:
    session = Session(DIGITS)
    base = initial(session, tmp_path / "base")
    train(session, base, tmp_path / "update")
    initial(session, tmp_path / "again")
    assert (tmp_path / "base").read_bytes() == (tmp_path / "again").read_bytes()


def test_the_same_job_gives_the_same_update_in_every_process(tmp_path: Path) -> None:
    base = initial(Session(DIGITS), tmp_path / "base")
    torch.manual_seed(1)
    first = train(Session(DIGITS), base, tmp_path / "first")
    torch.manual_seed(2)
    again = train(Session(DIGITS), base, tmp_path / "again")
    other = train(Session(DIGITS), base, tmp_path / "other", job(seed=1))
    assert first.manifest == again.manifest
    assert first.manifest.kind == ArtifactKind.UPDATE
    assert (first.samples, first.steps, first.loss) == (64, 8, again.loss)
    assert other.manifest.id != first.manifest.id
    assert first.loss > 0


def test_an_update_carries_values_not_differences(tmp_path: Path) -> None:
    session = Session(DIGITS)
    base = initial(session, tmp_path / "base")
    train(session, base, tmp_path / "update")
    before, after = TensorFile(tmp_path / "base"), TensorFile(tmp_path / "update")
    moved = [
        np.abs(after.values(index, slice(None)) - before.values(index, slice(None))).max()
        for index, _ in enumerate(before.tensors)
    ]
    assert before.tensors == after.tensors
    assert all(0 < distance < 1 for distance in moved)


def test_the_pipeline_is_told_of_the_lease_before_and_after(tmp_path: Path) -> None:
    """Sharded data give nothing outside of it: evaluation may look anywhere again."""
    from p2pd.workload.sharding import records_of_named  # noqa: PLC0415

    records = list(records_of_named("p2pd.workloads.digits:training"))
    valid = list(records_of_named("p2pd.workloads.digits:validation"))
    shards = write_set(
        tmp_path / "set", {"train": Source("train", records), "valid": Source("valid", valid)}, 32
    )
    config = json.dumps({"hidden": 8, "seed": 4, "data": shards.id.hex()})
    with data_in([tmp_path / "set"]):
        session = Session(BuildCall(DIGITS.module, config, 1))
    for name in ("train-000001.shard", "train-000002.shard"):  # not leased: never looked at
        (tmp_path / "set" / name).unlink()
    base = initial(session, tmp_path / "base")
    mine = train(session, base, tmp_path / "mine")
    assert mine.manifest == train(Session(DIGITS), base, tmp_path / "theirs").manifest
    with pytest.raises(WorkloadError, match=r"sample \d+ of split train is not here"):
        train(session, base, tmp_path / "other", job(shards=(1,), seed=0))
    assert session.info().data.kind == "sharded"
    assert session.info().data.descriptor == shards.id.hex()


def test_a_head_of_another_shape_is_refused_by_name(tmp_path: Path) -> None:
    wide = Session(BuildCall(DIGITS.module, '{"hidden": 9}', 1))
    base = initial(wide, tmp_path / "wide")
    with pytest.raises(WorkloadError, match=r"does not fit the model: tensor '0\.bias' has shape"):
        train(Session(DIGITS), base, tmp_path / "update")
    assert not (tmp_path / "update").exists()


def test_evaluation_is_repeatable_and_gives_each_private_sample(tmp_path: Path) -> None:
    session = Session(DIGITS)
    head = initial(session, tmp_path / "head")
    call = EvaluateCall(EvaluateJob(BASE, 7, 50), head)
    first = session.evaluate(call, never)
    again = Session(DIGITS).evaluate(call, never)
    other = session.evaluate(EvaluateCall(EvaluateJob(BASE, 8, 50), head), never)
    assert first == again
    assert (first.finite, first.samples, len(first.private)) == (True, 360, 50)
    assert 0 <= first.metric <= 1_000_000
    assert other.private != first.private
    assert (other.metric, other.loss) == (first.metric, first.loss)


def test_a_sound_workload_looks_so_and_what_it_leaves_behind_is_told(tmp_path: Path) -> None:
    session = Session(DIGITS)
    head = initial(session, tmp_path / "head")
    session.evaluate(EvaluateCall(EvaluateJob(BASE, 7, 50), head), never)
    found = session.look(LookCall(head))
    assert (found.tied, found.changed) == ((), ())
    assert (found.evaluation_moved, found.load_missed) == ("", "")
    torch.set_num_threads(2)
    assert session.look(LookCall(head)).changed == ("a call leaves 2 threads of torch",)
    assert torch.get_num_threads() == 1


def test_what_evaluation_moves_and_what_load_leaves_out_is_named(tmp_path: Path) -> None:
    session = Session(DIGITS)
    head = initial(session, tmp_path / "head")
    workload = session._workload
    workload.state()["2.bias"].data.add_(1)
    assert session.look(LookCall(head)).evaluation_moved == "2.bias"
    load = workload.load

    def partly(state: Mapping[str, torch.Tensor]) -> None:
        load({**state, "0.bias": torch.full_like(state["0.bias"], 7)})

    workload.load = partly  # type: ignore[method-assign]
    assert session.look(LookCall(head)).load_missed == "0.bias"


def test_a_head_that_evaluates_to_no_number_is_not_finite(tmp_path: Path) -> None:
    session = Session(DIGITS)
    file = TensorFile(Path(os.fsdecode(initial(session, tmp_path / "head"))))
    arrays = {
        tensor.name: file.stored(index).reshape(tensor.shape).copy()
        for index, tensor in enumerate(file.tensors)
    }
    arrays["2.bias"][:] = np.nan
    write_artifact(tmp_path / "bad", ArtifactKind.HEAD, session.info().schema, arrays)
    call = EvaluateCall(EvaluateJob(BASE, 7, 5), os.fsencode(tmp_path / "bad"))
    result = session.evaluate(call, never)
    assert (result.finite, result.metric, result.loss, result.private) == (False, 0, 0, ())


def test_minus_zero_is_written_as_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zero_workload.py").write_text(ZERO_WORKLOAD)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    session = Session(BuildCall("zero_workload", "{}", 1))
    session.initial(InitialCall(os.fsencode(tmp_path / "head")))
    file = TensorFile(tmp_path / "head")
    found = {tensor.name: file.stored(index) for index, tensor in enumerate(file.tensors)}
    assert found["bias"].tobytes() == bytes(4)
    assert found["brain"].tobytes() == bytes(2)
    assert found["mask"].tolist() == [1, 0]


ZERO_WORKLOAD = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders

def build(config):
    model = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(model.bias, -0.0)
    model.register_buffer("brain", torch.tensor([-0.0], dtype=torch.bfloat16))
    model.register_buffer("mask", torch.tensor([True, False]))
    loader = DataLoader(TensorDataset(torch.zeros(2, 1), torch.zeros(2, 1)), batch_size=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learner = Learner(model, optimizer, loss=torch.nn.functional.mse_loss)
    return from_loaders(learner, loader, loader, metric="loss", higher_is_better=False)
"""


def test_a_build_that_gives_no_workload_says_what_it_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model_workload.py").write_text("def build(config):\n    return 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorkloadError, match=r"returned int: return p2pd\.from_loaders"):
        Session(BuildCall("model_workload", "{}", 1))


def test_a_lease_is_its_microshards_samples_and_the_last_one_may_be_short() -> None:
    assert leased_samples(job((1, 0)), 40) == [*range(32, 40), *range(32)]
    with pytest.raises(WorkloadError, match="microshard 2 of 32 samples lies outside the 64"):
        leased_samples(job((0, 2)), 64)


def test_private_samples_are_drawn_once_each_by_the_seed() -> None:
    drawn = private_samples(EvaluateJob(BASE, 5, 30), 100)
    assert drawn == private_samples(EvaluateJob(BASE, 5, 30), 100)
    assert drawn != private_samples(EvaluateJob(BASE, 6, 30), 100)
    assert len(set(drawn)) == 30
    assert sorted(private_samples(EvaluateJob(BASE, 5, 200), 10)) == list(range(10))


def test_losses_become_millionths_within_bounds() -> None:
    assert millionths(0.1234567) == 123457
    assert millionths(1e300) == 2**53
    assert millionths(-1e300) == -(2**53)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda state: {**state, "0.bias": torch.zeros(9, 9)}, r"state\(\) has 0.bias as float32"),
        (lambda state: {**state, "0.bias": state["0.bias"].double()}, "as float64"),
        (lambda state: {**state, "extra": torch.zeros(1)}, "the model has no extra"),
        (lambda state: {}, "it lacks 0.bias"),
    ],
)
def test_a_model_that_changes_its_shapes_is_refused_in_words_of_its_owner(
    tmp_path: Path, spoil: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], said: str
) -> None:
    session = Session(DIGITS)
    base = initial(session, tmp_path / "base")
    workload = session._workload
    state = workload.state
    workload.state = lambda: spoil(dict(state()))  # type: ignore[method-assign]
    with pytest.raises(WorkloadError, match=said):
        train(session, base, tmp_path / "update")
