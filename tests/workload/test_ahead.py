"""Going on from one's own steps: what the worker carries, and what an update then holds."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, Schema, TensorSpec, TrainJob
from p2pd.tensors.files import TensorFile
from p2pd.workload.ahead import OwnSteps
from p2pd.workload.protocol import BuildCall, InitialCall, TrainCall
from p2pd.workload.session import Session

DIGITS = BuildCall("p2pd.workloads.digits", '{"hidden": 8}', 1)
SCHEMA = Schema(
    (
        TensorSpec("count", "I64", (), True),
        TensorSpec("mean", "F32", (2,), True),
        TensorSpec("weight", "BF16", (2,), False),
    )
)


def state(mean: float, weight: float) -> dict[str, torch.Tensor]:
    return {
        "count": torch.tensor(int(mean)),
        "mean": torch.full((2,), mean),
        "weight": torch.full((2,), weight, dtype=torch.bfloat16),
    }


def test_steps_are_added_up_and_floating_buffers_are_as_the_last_lease_left_them() -> None:
    own = OwnSteps(SCHEMA)
    own.remember(1, state(0, 1.0), state(5, 1.5), 2)
    own.remember(2, state(5, 1.5), state(9, 1.25), 2)
    base = state(7, 10.0)
    both = own.upon(base, (1, 2))
    assert both is not None
    assert both["weight"].tolist() == [10.25, 10.25]
    assert both["weight"].dtype == torch.bfloat16
    assert both["mean"].tolist() == [9, 9]  # those of the base belong to older weights
    assert int(both["count"]) == 7
    one = own.upon(base, (2, 99))
    assert one is not None
    assert one["weight"].tolist() == [9.75, 9.75]


def test_what_is_not_known_or_too_old_is_left_out() -> None:
    own = OwnSteps(SCHEMA)
    assert own.upon(state(0, 0), (1,)) is None
    for height in (1, 2, 3):
        own.remember(height, state(0, 0), state(0, 1), 2)
    assert own.upon(state(0, 0), (1,)) is None
    assert own.upon(state(0, 0), ()) is None
    assert own.upon(state(0, 0), (3,)) is not None


def test_a_mean_of_the_head_and_of_where_the_last_lease_has_come_to(tmp_path: Path) -> None:
    own = OwnSteps(SCHEMA, tmp_path)
    assert own.mixed(state(7, 10.0), 3, 500_000) is None
    own.stand(2, state(5, 12.0))
    for one in (own, OwnSteps(SCHEMA, tmp_path)):  # the second one as after a restart
        mean = one.mixed(state(7, 10.0), 3, 250_000)
        assert mean is not None
        assert mean["weight"].tolist() == [10.5, 10.5]
        assert (mean["weight"].dtype, mean["mean"].tolist()) == (torch.bfloat16, [7, 7])
        all_own = one.mixed(state(7, 10.0), 3, 1_000_000)
        assert all_own is not None
        assert all_own["weight"].tolist() == [12.0, 12.0]
        assert one.mixed(state(7, 10.0), 2, 250_000) is None  # only what is below


class Trainer:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.session = Session(DIGITS)
        self.session.initial(InitialCall(os.fsencode(root / "base")))

    def train(self, height: int, carry: tuple[int, ...], remember: int = 2) -> TensorFile:
        path = self.root / f"update-{height}"
        path.unlink(missing_ok=True)
        job = TrainJob(
            height,
            ArtifactId(bytes(32)),
            (height,),
            32,
            Progress(0, 0, 0, 0, 0),
            height,
            carry=carry,
            remember=remember,
        )
        call = TrainCall(job, os.fsencode(self.root / "base"), os.fsencode(path))
        self.session.train(call, lambda: None)
        return TensorFile(path)


@pytest.mark.parametrize("index", range(4))
def test_an_update_holds_the_steps_of_its_own_lease_alone(tmp_path: Path, index: int) -> None:
    """base + steps of the first, trained on, less the first: what the second did, upon the base."""
    trainer = Trainer(tmp_path)
    base = TensorFile(tmp_path / "base")
    trainer.train(1, ())
    first = TensorFile(tmp_path / "update-1").values(index, slice(None))
    second = trainer.train(2, (1,)).values(index, slice(None))
    model = dict(trainer.session._workload.state())
    end = list(model.values())[index].detach().double().numpy().reshape(-1)
    origin = base.values(index, slice(None))
    reached = first - origin + second
    assert np.abs(reached - end).max() < 1e-6
    assert np.abs(second - origin).max() > 0


def test_without_anything_to_carry_it_is_the_plain_update_to_the_bit(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    plain, asked = Trainer(tmp_path / "one"), Trainer(tmp_path / "two")
    plain.train(1, (), remember=0)
    asked.train(1, (7,))
    assert (tmp_path / "one" / "update-1").read_bytes() == (
        tmp_path / "two" / "update-1"
    ).read_bytes()
