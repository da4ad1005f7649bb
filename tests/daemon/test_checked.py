from dataclasses import dataclass, field, replace

import pytest
import trio

from p2pd.core.health import Health
from p2pd.core.ids import ArtifactId
from p2pd.core.work import (
    DataInfo,
    EvaluateJob,
    Evaluation,
    Progress,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)
from p2pd.daemon.checked import CheckedWorker
from p2pd.errors import OtherWorkloadError, WorkloadError
from p2pd.sim import scripted
from p2pd.sim.fleet import SimFleet
from p2pd.sim.shape import FleetShape

TRAIN = TrainJob(1, ArtifactId(bytes(32)), (0,), 16, Progress(0, 0, 0, 0, 0), 0)
EVALUATE = EvaluateJob(ArtifactId(bytes(32)), 0, 8)


@dataclass
class Installed:
    """A worker that counts what it is told to do."""

    installed: WorkloadInfo
    done: list[object] = field(default_factory=list)
    ill: str = ""
    """What goes wrong."""

    async def info(self) -> WorkloadInfo:
        return self.installed

    async def train(self, job: TrainJob) -> TrainResult:
        if self.ill:
            raise WorkloadError(self.ill)
        self.done.append(job)
        return TrainResult(job.base, 0, 16, 2, 0, 0.1)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        self.done.append(job)
        return Evaluation(job.head, True, 0, 0, 100, ())


def workers(**changes: object) -> tuple[Installed, CheckedWorker]:
    found: list[tuple[Installed, CheckedWorker]] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            revision = SimFleet(0, FleetShape(), nursery).revision.revision
            info = WorkloadInfo(
                schema=revision.schema,
                train_samples=revision.data.samples,
                validation_samples=100,
                metric=revision.workload.metric,
                higher_is_better=True,
                source=scripted.SOURCE,
            )
            installed = Installed(replace(info, **changes))  # type: ignore[arg-type]
            found.append((installed, CheckedWorker(installed, revision, Health())))

    trio.run(main)
    return found[0]


def test_the_workload_of_the_revision_trains_and_judges() -> None:
    installed, worker = workers(devices=("cpu", "cpu"))

    async def main() -> None:
        assert worker.devices() == ""
        assert await worker.info() == installed.installed
        assert worker.devices() == "2 x cpu"
        await worker.train(TRAIN)
        await worker.evaluate(EVALUATE)

    trio.run(main)
    assert installed.done == [TRAIN, EVALUATE]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": bytes(32)}, f"digest {bytes(32).hex()}, .* names {scripted.SOURCE.hex()}"),
        ({"train_samples": 7}, "7 samples, the revision says"),
        (
            {"data": DataInfo("indexed", "another library", "/usr/lib")},
            "other data in /usr/lib: indexed 'another library', the revision names indexed ''",
        ),
        ({"data": DataInfo("generated", "", "")}, "other data: generated '', the revision"),
    ],
)
def test_nothing_is_trained_or_judged_with_another_one(
    changes: dict[str, object], words: str
) -> None:
    installed, worker = workers(**changes)

    async def main() -> None:
        for call in (worker.info(), worker.train(TRAIN), worker.evaluate(EVALUATE)):
            with pytest.raises(OtherWorkloadError, match=words):
                await call

    trio.run(main)
    assert installed.done == []


def test_what_went_wrong_last_is_a_trouble_until_something_has_gone_well() -> None:
    installed, worker = workers()
    health = worker._health
    seen: list[tuple[str, ...]] = []

    async def main() -> None:
        for ill in ("no such luck", "ran out of luck"):
            installed.ill = ill
            with pytest.raises(WorkloadError):
                await worker.train(TRAIN)
            seen.append(health.troubles())
        installed.ill = ""
        await worker.info()
        seen.append(health.troubles())
        await worker.evaluate(EVALUATE)
        seen.append(health.troubles())

    trio.run(main)
    assert seen == [
        ("workload: no such luck",),
        ("workload: ran out of luck",),
        ("workload: ran out of luck",),
        (),
    ]
