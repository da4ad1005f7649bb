"""A worker that does nothing with another workload than the revision's."""

from p2pd.core.revision import Revision
from p2pd.core.wording import counted
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import WorkloadError
from p2pd.ports import Worker


class CheckedWorker:
    """Raises WorkloadError where what is installed here is not what the revision names."""

    def __init__(self, worker: Worker, revision: Revision) -> None:
        self._worker = worker
        self._revision = revision

    async def info(self) -> WorkloadInfo:
        info = await self._worker.info()
        revision, wanted = self._revision, self._revision.workload
        if info.source != wanted.source:
            raise WorkloadError(
                f"workload {wanted.module} here has the source digest {info.source.hex()}, "
                f"the revision names {wanted.source.hex()}: install the revision's version"
            )
        if info.schema != revision.schema or info.train_samples != revision.data.samples:
            raise WorkloadError(
                f"workload {wanted.module} builds another model or data set here "
                f"({counted(info.train_samples, 'sample')}, the revision says {revision.data.samples}): "
                "install the libraries and the data that it was published with"
            )
        data, named = info.data, revision.data
        if (data.kind, data.descriptor) != (named.kind, named.descriptor):
            raise WorkloadError(
                f"workload {wanted.module} has other data{f' in {data.root}' if data.root else ''}: "
                f"{data.kind} {data.descriptor!r}, the revision names "
                f"{named.kind} {named.descriptor!r}: install the revision's data"
            )
        return info

    async def train(self, job: TrainJob) -> TrainResult:
        await self.info()
        return await self._worker.train(job)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        await self.info()
        return await self._worker.evaluate(job)
