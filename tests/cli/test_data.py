from pathlib import Path

import pytest

from tests.cli.commands import Ran, p2pd

DATA = """
import torch
from torch.utils.data import TensorDataset

print("loading")
data = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20) % 2)
"""


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for n in range(6):
        path = tmp_path / "pictures" / ("cat", "dog")[n % 2] / f"{n}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([n]) * 10)
    return tmp_path / "pictures"


def shard(source: object, out: Path, *more: object) -> Ran:
    return p2pd("data", "shard", source, "--out", out, *more)


def test_a_directory_becomes_a_set_that_can_be_checked(pictures: Path, tmp_path: Path) -> None:
    ran = shard(pictures, tmp_path / "set", "--samples-per-shard", 4, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["classes"] == ["cat", "dog"]
    assert ran.json["splits"]["train"]["samples"] == 6
    assert ran.json["splits"]["train"]["files"] == 2
    checked = p2pd("data", "check", tmp_path / "set", "--json")
    assert checked.json == ran.json
    shown = p2pd("data", "check", tmp_path / "set").out
    assert shown.splitlines()[0] == f"data       {ran.json['data']}"
    assert "train      6 samples, 4 in each of 2 files" in shown
    assert shown.endswith("classes    2: cat to dog\n")


def test_a_set_that_is_not_sound_fails_the_check(pictures: Path, tmp_path: Path) -> None:
    shard(pictures, tmp_path / "set")
    path = tmp_path / "set" / "train-000000.shard"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    ran = p2pd("data", "check", tmp_path / "set")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"p2pd: {path}: not the bytes that its set names")


def test_a_data_set_of_pytorch_is_sharded_and_trained_on(tmp_path: Path) -> None:
    (tmp_path / "pairs.py").write_text(DATA)
    words = ("--workload-path", tmp_path, "--valid", "pairs:data", "--json")
    ran = shard("pairs:data", tmp_path / "set", *words)
    assert ran.code == 0, ran.err
    assert ran.err == "loading\n"
    (tmp_path / "tiny.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\nfrom p2pd import Learner, Sharded, from_loaders\n"
        "def build(config):\n"
        "    model = torch.nn.Linear(2, 2)\n"
        "    data = config['data']\n"
        "    return from_loaders(\n"
        "        Learner(model, torch.optim.SGD(model.parameters(), 0.001)),\n"
        "        DataLoader(Sharded(data), batch_size=4, shuffle=True),\n"
        "        DataLoader(Sharded(data, 'valid'), batch_size=20))\n"
    )
    arguments = ["--local", "tiny", "--workload-path", tmp_path, "--samples", 20, "--json"]
    config = ("--config", f"data={ran.json['data']}")
    trained = p2pd("train", *arguments, *config, "--data", tmp_path / "set")
    assert trained.code == 0, trained.err
    assert trained.json["train_samples"] == 20
    lost = p2pd("train", *arguments, *config)
    assert lost.code == 1
    assert f"data set {ran.json['data']} is not here" in lost.err


@pytest.mark.parametrize("missing", ["no/such/dir", "no_such_module:data"])
def test_a_source_that_is_not_there_is_said_and_nothing_is_written(
    missing: str, tmp_path: Path
) -> None:
    ran = shard(missing, tmp_path / "set")
    assert ran.code != 0
    assert len(ran.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_written_over(pictures: Path, tmp_path: Path) -> None:
    ran = shard(pictures, pictures)
    assert (ran.code, ran.out) == (2, "")
    assert "exists already" in ran.err
