"""What a trainer's workload keeps between leases outlives its process, and whatever goes wrong in one."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId
from p2pd.core.work import Progress, TrainJob
from p2pd.workload.contract import Cancelled
from p2pd.workload.optimizers import load_optimizer
from p2pd.workload.protocol import (
    BuildCall,
    Call,
    Failure,
    InitialCall,
    Outcome,
    Request,
    TrainCall,
)
from p2pd.workload.serve import FAILURES_MOST, Server
from p2pd.workload.session import Session

WORKLOADS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from p2pd import Learner, from_loaders

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))

    def forward(self, inputs):
        trap = inputs.sum().item() > 1000
        return self.layers(inputs * float("nan") if trap else inputs)

def build(config):
    chance = torch.Generator().manual_seed(1)
    data = torch.rand(400, 4, generator=chance)
    data[:40] += config["trap"]
    set = TensorDataset(data, data.sum(1, keepdim=True))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    learner = Learner(model, optimizer, schedule, loss=nn.functional.mse_loss)
    loader = DataLoader(set, batch_size=10, shuffle=True)
    return from_loaders(learner, loader, loader, metric="loss", higher_is_better=False)
"""
DRAWING = '''
import random
import numpy
import torch
from p2pd import Workload
from p2pd.core.work import Schema, TensorSpec
from p2pd.workload.contract import Trained

class Drawing(Workload):
    """Draws from the global generators, which nobody seeds."""
    metric, higher_is_better, train_samples, validation_samples = "x", True, 400, 4

    def __init__(self):
        self.tensor = torch.zeros(3)
    def schema(self):
        return Schema((TensorSpec("x", "F32", (3,), False),))
    def state(self):
        return {"x": self.tensor}
    def load(self, state):
        self.tensor.copy_(state["x"])
    def train(self, lease):
        self.tensor += torch.tensor([random.gauss(0, 1), numpy.random.normal(), torch.randn(()).item()])
        return Trained(len(lease.samples), 1, 1.0)
    def evaluate(self, pause): ...
    def sample_losses(self, samples, pause): ...

def build(config):
    return Drawing()
'''


def never() -> None:
    pass


def seed(number: int) -> None:
    """Of the generators that whoever draws from them unasked gets."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


class Trainer:
    """A trainer's directory, and a process that may end and start again."""

    def __init__(self, root: Path, module: str = "carrying", trap: int = 0) -> None:
        self.root, self.own = root, root / "own"
        root.mkdir(exist_ok=True)
        self.call = BuildCall(module, f'{{"trap": {trap}}}', 1)
        self.restart()
        self.session.initial(InitialCall(os.fsencode(root / "base")))

    def restart(self) -> None:
        self.session = Session(self.call)

    def job(self, height: int, carry: tuple[int, ...] = (), remember: int = 0) -> TrainCall:
        output = self.root / f"update-{height}"
        output.unlink(missing_ok=True)
        progress = Progress(height, 4 * height, 0, 0, 0)
        job = TrainJob(
            height,
            ArtifactId(bytes(32)),
            (height % 10,),
            40,
            progress,
            height,
            carry=carry,
            remember=remember,
        )
        base = os.fsencode(self.root / "base")
        return TrainCall(job, base, os.fsencode(output), os.fsencode(self.own))

    def train(
        self, height: int, carry: tuple[int, ...] = (), pause: Callable[[], None] = never
    ) -> bytes:
        self.session.train(self.job(height, carry, 2 if carry else 0), pause)
        self.session.settle()
        return (self.root / f"update-{height}").read_bytes()

    def files(self, kind: str = "inner") -> list[Path]:
        return sorted(self.own.glob(f"{kind}-*"))


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "carrying.py").write_text(WORKLOADS)
    (tmp_path / "drawing.py").write_text(DRAWING)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("carrying", "drawing", "holding"):  # the next test has others of these names
        sys.modules.pop(name, None)


@pytest.mark.parametrize("module", ["carrying", "drawing"])
def test_i10_a_restarted_worker_goes_on_to_the_bit(tmp_path: Path, module: str) -> None:
    steady, restarted, fresh = (
        Trainer(tmp_path / name, module) for name in ("one", "two", "three")
    )
    seed(7)
    expected = [steady.train(height) for height in (1, 2, 3, 4)]
    seed(7)
    found = [restarted.train(1)]
    for height in (2, 3, 4):
        seed(height)
        restarted.restart()
        found.append(restarted.train(height))
    assert found == expected
    assert [path.name for path in steady.files()] == [path.name for path in restarted.files()]
    assert fresh.train(4) != expected[-1]  # what is kept matters


def test_i10_a_lease_that_is_trained_again_gives_the_same_update(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "one")
    trainer.train(1)
    before = trainer.train(2)
    assert trainer.train(2) == before
    trainer.restart()
    assert trainer.train(2) == before
    assert len(trainer.files()) == 2


def test_a_lease_that_was_called_off_leaves_no_trace(tmp_path: Path) -> None:
    steady, stopped = Trainer(tmp_path / "one"), Trainer(tmp_path / "two")
    steady.train(1)
    left = 3

    def stop() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Cancelled

    for height in (1, 2):
        left = 3
        with pytest.raises(Cancelled):
            stopped.train(height, pause=stop)
        if height == 1:
            stopped.train(1)
    assert stopped.train(3) == steady.train(3)


def test_a_failed_step_brings_back_what_the_last_good_lease_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The samples of microshard 0 give a loss that is no number, in a lease of two microshards in its second half."""
    steady, failing = Trainer(tmp_path / "one"), Trainer(tmp_path / "two", trap=1000)
    for trainer in (steady, failing):
        trainer.train(1)
    requests, kept_open = os.pipe()
    server = Server(requests, -1, -1)

    def ask(call: Call, content: object) -> tuple[Outcome, bytes]:
        answer = server._answer(Request(1, call, encode(content)))
        return answer.outcome, answer.body

    for height in range(10, 10 * FAILURES_MOST, 10):
        assert ask(Call.BUILD, failing.call)[0] is Outcome.DONE
        outcome, body = ask(Call.TRAIN, failing.job(height))
        assert outcome is Outcome.FAILED
        assert "the loss is nan" in decode(Failure, body).message
    ask(Call.BUILD, failing.call)
    assert ask(Call.TRAIN, failing.job(43))[0] is Outcome.DONE
    assert (failing.root / "update-43").read_bytes() == steady.train(43)
    for height in range(50, 50 + 10 * FAILURES_MOST, 10):
        ask(Call.BUILD, failing.call)
        assert ask(Call.TRAIN, failing.job(height))[0] is Outcome.FAILED
    ask(Call.BUILD, failing.call)  # perhaps it was what the good lease left
    assert ask(Call.TRAIN, failing.job(91))[0] is Outcome.DONE
    fresh = Trainer(tmp_path / "three")
    assert (failing.root / "update-91").read_bytes() == fresh.train(91)
    for descriptor in (requests, kept_open):
        os.close(descriptor)


def test_what_is_damaged_is_replaced_by_what_was_left_before_or_a_fresh_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, fresh = (Trainer(tmp_path / name) for name in ("one", "two", "three"))
    one.train(1)
    two.train(1)
    two.train(2)
    for damaged, expected in ((two.files()[1:], one.train(5)), (two.files(), fresh.train(5))):
        two.restart()
        for path in damaged:
            path.write_bytes(b"torn")
        assert two.train(5) == expected
        said = capsys.readouterr().out
        assert all(f"{path} is damaged and was not used" in said for path in damaged)
        next(path for path in two.files() if "inner-5" in path.name).unlink()


def test_i10_own_steps_that_no_head_contains_outlive_the_process(tmp_path: Path) -> None:
    steady, restarted = Trainer(tmp_path / "one"), Trainer(tmp_path / "two")
    for trainer in (steady, restarted):
        trainer.session.train(trainer.job(1, remember=2), never)
    expected = [steady.train(2, (1,)), steady.train(3, (1, 2)), steady.train(4, (2, 3))]
    found = []
    for height, carry in ((2, (1,)), (3, (1, 2)), (4, (2, 3))):
        restarted.restart()
        found.append(restarted.train(height, carry))
    assert found == expected
    assert len(steady.files("steps")) == 3
    restarted.restart()
    assert restarted.train(4, (2, 3)) == expected[-1]  # trained again, after a crash
    lost = Trainer(tmp_path / "three")
    assert lost.train(4, (2, 3)) != expected[-1]


def test_what_no_file_holds_is_said_once_and_costs_no_lease(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = WORKLOADS.replace(
        "    schedule =", "    optimizer.param_groups[0]['hook'] = print\n    schedule ="
    )
    (tmp_path / "holding.py").write_text(held)
    trainer = Trainer(tmp_path / "one", "holding")
    trainer.train(1)
    trainer.train(2)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("a restart will lack the inner state: inner_state() has an object of")
    assert "/workload/optimizers/0/param_groups/0/hook" in line
    assert trainer.files() == []


def test_an_optimizers_state_keeps_its_types() -> None:
    class Precise(torch.optim.Optimizer):
        def step(self, closure: object = None) -> None:  # type: ignore[override]  # a stand-in
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter] = {"master": torch.full((2,), 1.001)}

    def made() -> Precise:
        return Precise([torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))], {"lr": 0.1})

    before, after = made(), made()
    before.step()
    load_optimizer(after, before.state_dict())
    (found,) = after.state_dict()["state"].values()
    assert found["master"].tolist() == torch.full((2,), 1.001).tolist()
    (own,) = before.state_dict()["state"].values()
    assert found["master"] is not own["master"]
