"""What stands in for a subprocess that a role has no use for."""

from typing import NoReturn

from p2pd.core.work import (
    EvaluateJob,
    Evaluation,
    Inspection,
    InspectJob,
    Merged,
    MergeJob,
    RebuildJob,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)
from p2pd.errors import LocalError


def _refuse() -> NoReturn:
    raise LocalError("this role declared no need for the process that it calls")


class NoMath:
    async def inspect(self, job: InspectJob) -> Inspection:
        _refuse()

    async def merge(self, job: MergeJob) -> Merged:
        _refuse()

    async def rebuild(self, job: RebuildJob) -> None:
        _refuse()

    async def self_test(self) -> None:
        _refuse()


class NoWorker:
    def devices(self) -> str:
        return ""

    async def info(self) -> WorkloadInfo:
        _refuse()

    async def train(self, job: TrainJob) -> TrainResult:
        _refuse()

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        _refuse()
