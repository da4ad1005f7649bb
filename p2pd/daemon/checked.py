"""A worker that does nothing with another workload than the revision's, and whose troubles the status shows."""

from collections.abc import Iterator
from contextlib import contextmanager

from p2pd.core.health import Health
from p2pd.core.revision import Revision
from p2pd.core.wording import counted, tallied
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import OtherWorkloadError, WorkloadError
from p2pd.ports import Worker

SOURCE = "workload"


class CheckedWorker:
    """Raises OtherWorkloadError where what is installed here is not what the revision names."""

    def __init__(self, worker: Worker, revision: Revision, health: Health) -> None:
        self._worker = worker
        self._revision = revision
        self._health = health
        self._devices = ""

    def devices(self) -> str:
        """On what the workload computes; empty before it has been built."""
        return self._devices

    async def info(self) -> WorkloadInfo:
        with self._noting():
            info = self._checked(await self._worker.info())
            self._devices = tallied(info.devices)
            return info

    async def train(self, job: TrainJob) -> TrainResult:
        await self.info()
        with self._noting():
            result = await self._worker.train(job)
        self._health.clear(SOURCE)
        return result

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        await self.info()
        with self._noting():
            evaluation = await self._worker.evaluate(job)
        self._health.clear(SOURCE)
        return evaluation

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """What went wrong last is shown until a lease or an evaluation has gone well."""
        try:
            yield
        except WorkloadError as error:
            self._health.note(SOURCE, str(error))
            raise

    def _checked(self, info: WorkloadInfo) -> WorkloadInfo:
        revision, wanted = self._revision, self._revision.workload
        if info.source != wanted.source:
            raise OtherWorkloadError(
                f"workload {wanted.module} here has the source digest {info.source.hex()}, "
                f"the revision names {wanted.source.hex()}: install the revision's version"
            )
        if info.schema != revision.schema or info.train_samples != revision.data.samples:
            raise OtherWorkloadError(
                f"workload {wanted.module} builds another model or data set here "
                f"({counted(info.train_samples, 'sample')}, the revision says {revision.data.samples}): "
                "install the libraries and the data that it was published with"
            )
        data, named = info.data, revision.data
        if (data.kind, data.descriptor) != (named.kind, named.descriptor):
            raise OtherWorkloadError(
                f"workload {wanted.module} has other data{f' in {data.root}' if data.root else ''}: "
                f"{data.kind} {data.descriptor!r}, the revision names "
                f"{named.kind} {named.descriptor!r}: install the revision's data"
            )
        return info
