"""Workloads with faults, examined. Importing torch takes seconds: what ends no process shares one."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import trio

from p2pd.config.node import StoreSettings
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, digest
from p2pd.core.work import (
    DataInfo,
    EvaluateJob,
    Evaluation,
    Schema,
    TensorSpec,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)
from p2pd.daemon.asking import asking
from p2pd.daemon.examine import Lease, Run, examine_alone, examined, first_run, second_run
from p2pd.errors import WorkloadError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.worker import WorkerProcess, WorkerSettings
from p2pd.workload.protocol import Footprint, Look

T = TypeVar("T")
LIMIT_S = 240
LEASE = Lease(shards=2, shard_samples=16)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="it watches processes the Linux way"
)

ODD = """
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

from p2pd import Learner, from_loaders

HOW = Path(__file__).with_name("how")
print("imported")

def build(config):
    how = HOW.read_text()
    if how == "library":
        import no_such_library
    if how == "well":
        torch.set_default_dtype(torch.float64)
    if how == "nothing":
        return None
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 2))
    if how == "well":
        model[2].weight = nn.Parameter(torch.eye(4))
        model[2].bias = model[0].bias
    inputs = torch.randn(128, 3, generator=torch.Generator().manual_seed(1)).float()
    data = TensorDataset(inputs, (inputs.sum(1) > 0).long())
    steps = []

    def step(net, batch):
        how = HOW.read_text()
        steps.append(1)
        if len(steps) >= 7 and how == "seventh":
            raise ValueError("no such luck in step 7")
        if how == "words":
            raise ValueError("Fehler: Größe passt nicht \\u2028 \\U0001f600")
        if how == "memory":
            steps.append(torch.empty(2**31, dtype=torch.uint8))
        if how == "exit":
            os._exit(3)
        if how == "well":
            Path("notes.txt").write_text("mine")
            if net.training and os.fork() == 0:
                os._exit(0)
        return functional.cross_entropy(net(batch[0].to(net[0].weight.dtype)), batch[1])

    def score(net, batch):
        if HOW.read_text() == "endless":
            while True:
                time.sleep(60)
        if HOW.read_text() == "chance":
            return float(torch.rand((), generator=CHANCE)), 1
        if HOW.read_text() == "remembers":
            net[1].num_batches_tracked.add_(1)
        return float((net(batch[0].to(net[0].weight.dtype)).argmax(1) == batch[1]).sum()), len(batch[1])

    learner = Learner(model, SGD(model.parameters(), lr=0.1), step=step)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    return from_loaders(learner, loader, loader, metric=score)

CHANCE = torch.Generator()
"""


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "odd_workload.py").write_text(ODD)
        self.settings = WorkerSettings(
            module="odd_workload",
            paths=(directory,),
            memory_bytes=2**32,
            evaluate_s=3.0,
            grace_s=1.0,
            rest_s=0.0,
        )

    def how(self, word: str) -> None:
        (self.directory / "how").write_text(word)


FAULTS = {
    "library": r"^ModuleNotFoundError: .*no_such_library.* \(.*odd_workload\.py:\d+\)$",
    "nothing": r"^build\(config\) of 'odd_workload' returned NoneType: return p2pd\.from_loaders",
    "seventh": r"^ValueError: no such luck in step 7 \(.*odd_workload\.py:\d+\)$",
    "words": r"^ValueError: Fehler: Größe passt nicht .*😀 \(.*odd_workload\.py:\d+\)$",
    "memory": r"out of memory, it may hold 4\.3 GB .*odd_workload\.py:\d+\)$",
    "chance": r"^one head evaluates to 0\.\d+ \(loss .*\), then to 0\.\d+ .*: switch off",
    "remembers": r"^evaluate changes 1\.num_batches_tracked: after load",
    "endless": r"^evaluate passed its deadline of 3 s.*odd_workload\.py:\d+",
    "exit": r"^the process of workload odd_workload ended with exit code 3",
}


def test_each_fault_is_one_clear_line(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    printed: list[str] = []

    async def every(worker: WorkerProcess) -> None:
        for fault, said in FAULTS.items():
            bench.how(fault)
            with pytest.raises(WorkloadError, match=said) as raised:
                await first_run(worker, LEASE)
            assert "\n" not in str(raised.value)

    unbounded = StoreSettings(quota_bytes=0, reserve_bytes=0)
    store = FileBlobStore(tmp_path / "blobs", unbounded, on_damage=lambda *_: None)
    play(lambda: asking(WorkerProcess(bench.settings, store, printed.append), every))
    assert printed.count("imported") == 2  # one process outlived all but the last two


def test_what_harms_nothing_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    bench.how("well")
    monkeypatch.chdir(tmp_path)
    found = play(lambda: examine_alone(bench.settings, lambda _: None, LEASE))
    assert found.look.tied == (("0.bias", "2.bias"),)
    assert found.same_head
    assert found.same_update
    lines = " | ".join(found.warnings)
    assert "it prints, 2 lines so far" in lines
    assert "the first is 'imported'" in lines
    assert "notes.txt appeared in the directory" in lines
    assert "of the processes that it starts are there after a call" in lines
    assert "building leaves default dtype torch.float64" in lines
    assert len(found.warnings) == 4


def play(part: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        with trio.fail_after(LIMIT_S):
            return await part()

    return trio.run(main)


class Double:
    """A workload that does what it is told to, without a process."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"info": INFO, "head": b"head", "update": None, "loss": 700_000, **answers}

    async def info(self) -> WorkloadInfo:
        return cast("WorkloadInfo", self.answers["info"])

    async def initial(self) -> ArtifactId:
        return ArtifactId(self.answers["head"])

    async def train(self, job: TrainJob) -> TrainResult:
        made = self.answers["update"] or digest("artifact", encode(job))
        return TrainResult(ArtifactId(made), 100, 32, 4, 700_000, 0.5)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        finite = bool(self.answers["loss"])
        return Evaluation(job.head, finite, 500_000, self.answers["loss"], 10, ())

    async def look(self, head: ArtifactId) -> Look:
        return Look((), (), "", "", 0, Footprint(0, 0, "", 0))


def compared(one: Double, other: Double) -> tuple[Run, Run]:
    async def main() -> tuple[Run, Run]:
        first = await first_run(one, LEASE)
        return first, await second_run(other, LEASE, first)

    return trio.run(main)


SCHEMA = Schema((TensorSpec("weight", "F32", (2,), False),))
INFO = WorkloadInfo(SCHEMA, 128, 10, "accuracy", True, bytes(32))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ({"update": b"u"}, {"update": b"u"}, "training gives the same whatever is leased"),
        (
            {},
            {"loss": 710_000},
            r"evaluate one head differently, 0\.5 \(loss 0\.7\) and 0\.5 \(loss 0\.71\)",
        ),
        ({"loss": 0}, {}, "evaluates to no finite number"),
        (
            {},
            {"info": replace(INFO, train_samples=127)},
            "another workload in each process: train_samples 128 and 127",
        ),
        ({}, {"info": replace(INFO, schema=Schema(()))}, "its tensors are not the same: weight"),
        ({}, {"info": replace(INFO, source=bytes(31))}, "its source or its data were changed"),
    ],
)
def test_what_two_nodes_would_not_share_is_refused(
    one: dict[str, Any], other: dict[str, Any], said: str
) -> None:
    with pytest.raises(WorkloadError, match=said):
        compared(Double(**one), Double(**other))


def test_a_small_data_set_is_leased_again_from_its_start() -> None:
    first, again = compared(
        Double(info=(few := replace(INFO, train_samples=40)), update=b"u"),
        Double(info=few, update=b"u"),
    )
    assert first.leases == again.leases  # of the same samples: nothing is wrong with that


def test_what_repeats_only_nearly_and_what_may_repeat_is_a_warning() -> None:
    stream = DataInfo("generated", "a stream, seeded anew for each lease: samples may repeat", "")
    info = replace(INFO, data=stream)
    first, again = compared(Double(info=info), Double(info=info, update=b"x", head=b"other"))
    result = examined(first, again, (), ())
    assert [line.partition(":")[0] for line in result.warnings] == [
        "two processes train one lease to different bits",
        "build draws other first weights in each process",
        "the stream is seeded anew for each lease",
    ]
