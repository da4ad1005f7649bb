import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader

from p2pd import Learner, Pipeline, Sharded, Workload, from_loaders
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Lease
from p2pd.workload.pipelines import leased
from p2pd.workload.places import data_in
from p2pd.workload.samples import dump
from tests.io.shard_sets import write_numbers

SET = "set"


def lease(*samples: int) -> Lease:
    return Lease(samples, 0, 0, lambda: None)


def test_a_set_is_found_by_its_id_where_the_process_was_told_to_look(tmp_path: Path) -> None:
    shards = write_numbers(tmp_path / SET)
    with data_in([tmp_path, tmp_path / SET]):
        data = Sharded(shards.id.hex())
    assert [data[n] for n in range(len(data))] == [(n, f"number {n}") for n in range(10)]
    assert data.kind() == "sharded"
    assert data.descriptor() == shards.id.hex()
    assert data.local_root() == tmp_path
    with pytest.raises(WorkloadError, match=r"is not here: name the directory"):
        Sharded(shards.id.hex())
    with data_in([tmp_path]), pytest.raises(WorkloadError, match=f"looked for in {tmp_path}"):
        Sharded(shards.id.hex())


def test_a_nodes_store_is_read_where_files_have_ids_for_names(tmp_path: Path) -> None:
    """Only one file of the training set was fetched."""
    shards = write_numbers(tmp_path / SET)
    store = tmp_path / "blobs"
    store.mkdir()
    (store / shards.id.hex()).write_bytes(shards.encoded)
    artifact = shards.splits[0].manifest(1).id.hex()
    (store / artifact).write_bytes((tmp_path / SET / "train-000001.shard").read_bytes())
    with data_in([store]):
        data = Sharded(shards.id.hex(), transform=lambda sample: sample[0])
    assert [data[n] for n in (4, 5, 6, 7)] == [4, 5, 6, 7]
    with pytest.raises(WorkloadError, match=r"sample 8 of split train is not here: train-000002"):
        data[8]
    assert pickle.loads(pickle.dumps(Sharded(tmp_path / SET)))[8] == (8, "number 8")


def test_a_sample_outside_of_the_lease_is_refused_while_it_is_trained(tmp_path: Path) -> None:
    write_numbers(tmp_path / SET)
    data = Sharded(tmp_path / SET)
    with leased(data, lease(4, 5)):
        assert data[4] == (4, "number 4")
        with pytest.raises(WorkloadError, match="sample 6 of split train is outside of the lease"):
            data[6]
        helped = DataLoader(data, batch_size=None, sampler=[5, 6], num_workers=1)
        with pytest.raises(WorkloadError, match="outside of the lease"):
            list(helped)
    assert data[6] == (6, "number 6")
    for place in (-1, 10):
        with pytest.raises(IndexError):
            data[place]


def test_validation_is_another_split_and_leases_are_of_train(tmp_path: Path) -> None:
    write_numbers(tmp_path / SET)
    valid = Sharded(tmp_path / SET, "valid")
    assert [sample[0] for sample in (valid[n] for n in range(len(valid)))] == [1000, 1001, 1002]
    with pytest.raises(WorkloadError, match="trains on split 'valid'"):
        valid.descriptor()
    with pytest.raises(WorkloadError, match="no split 'test', it has train, valid"):
        Sharded(tmp_path / SET, "test")


def test_damage_is_said_with_the_name_of_the_file(tmp_path: Path) -> None:
    write_numbers(tmp_path / SET)
    path = tmp_path / SET / "train-000000.shard"
    data, whole = Sharded(tmp_path / SET), path.read_bytes()
    for damaged in (whole[:-1], whole[:20], b""):
        path.write_bytes(damaged)
        with pytest.raises(WorkloadError, match=r"train-000000.shard: the shard file ends early"):
            data[3]
    path.write_bytes(whole[:24] + bytes(8) + whole[32:])
    with pytest.raises(WorkloadError, match="outside of its shard file"):
        data[0]
    path.write_bytes(whole[:-1] + b"\xff")
    with pytest.raises(WorkloadError, match="sample 3 of split train is damaged"):
        data[3]
    path.unlink()
    path.mkdir()
    with pytest.raises(WorkloadError, match="it is a directory"):
        data[3]


def test_a_directory_without_a_set_is_said(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"set.cbor: there is no such file"):
        Sharded(tmp_path)
    (tmp_path / "set.cbor").write_bytes(b"\x80")
    with pytest.raises(WorkloadError, match="not the manifest of a data set"):
        Sharded(tmp_path)


class Told(Pipeline):
    """A pipeline of the user's own."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def kind(self) -> str:
        return "custom"

    def prepare(self, lease: Lease) -> None:
        if 13 in lease.samples:
            raise WorkloadError("sample 13 could not be brought")
        self.heard.append(("prepare", tuple(lease.samples)))

    def finish(self, lease: Lease) -> None:
        self.heard.append("finish")


def test_a_pipeline_of_ones_own_is_told_of_each_lease_before_and_after() -> None:
    told = Told()
    with leased(told, lease(1, 2)):
        told.heard.append("train")
    with pytest.raises(RuntimeError, match="step 7"), leased(told, lease(3)):
        raise RuntimeError("step 7")
    with pytest.raises(WorkloadError, match="could not be brought"), leased(told, lease(13)):
        told.heard.append("never")
    assert told.heard == [
        ("prepare", (1, 2)),
        "train",
        "finish",
        ("prepare", (3,)),
        "finish",
    ]


def test_a_workload_trains_on_shard_files_as_on_its_own_data_set(tmp_path: Path) -> None:
    from p2pd.io.shard_writer import Source, write_set  # noqa: PLC0415

    chance = torch.Generator().manual_seed(0)
    pairs = [(torch.randn(3, generator=chance), torch.tensor([1.0])) for _ in range(12)]
    write_set(tmp_path / SET, {"train": Source("pairs", map(dump, pairs))}, 4)

    def trained(data: Any) -> Workload:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        workload = from_loaders(
            Learner(model, SGD(model.parameters(), 0.1), loss=nn.functional.mse_loss),
            DataLoader(data, batch_size=2, shuffle=True),
            DataLoader(pairs, batch_size=12),  # type: ignore[arg-type]
            metric="loss",
            higher_is_better=False,
        )
        with leased(workload.pipeline, lease(3, 4, 9, 10)):
            workload.train(lease(3, 4, 9, 10))
        return workload

    mine, theirs = trained(Sharded(tmp_path / SET)), trained(pairs)
    assert (mine.pipeline.kind(), theirs.pipeline.kind()) == ("sharded", "indexed")
    for name, tensor in theirs.state().items():
        assert torch.equal(mine.state()[name], tensor)
