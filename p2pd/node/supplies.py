"""What the leases of one revision, and its evaluations, need of a data set in shard files. Seconds, samples."""

import itertools

import trio

from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId
from p2pd.core.shards import TRAIN, ShardFile, ShardSet, Split
from p2pd.core.wording import counted
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import RemoteError, UnreachableError, WorkloadError
from p2pd.node.data_files import DataFiles
from p2pd.ports import Worker


class Supplies:
    """Of a revision whose data come with its leases; of any other there is nothing to bring."""

    def __init__(self, files: DataFiles, setting: Setting) -> None:
        self._files = files
        self._setting = setting
        self._name = f"data of {setting.revision.id.hex()}"
        self._leases: dict[str, int] = {}
        """Heights of the leases whose data are here, by the owners of their pins."""
        self._numbers = itertools.count(1)
        self._validates = False
        """The validation data were brought."""

    async def bring(self, height: int, microshards: tuple[int, ...]) -> None:
        """Has here what a lease is trained on, until its height and those in which it may be late are decided.

        Raises:
            UnreachableError: it did not come in time.
            RemoteError: the data are not what the revision says.
            StoreError: there is no room for them.
        """
        wanted = self._setting.revision.data.shard_set
        if wanted is None:
            return
        owner = f"{self._name} at {height}, {next(self._numbers)}"
        limit_s = self._setting.revision.schedule.deadline_ms / 1000
        try:
            with trio.move_on_after(limit_s):
                split = self._train_of(await self._files.find(wanted))
                await self._files.bring(self._files_of(split, microshards), owner)
                self._leases[owner] = height
                return
        finally:
            if owner not in self._leases:
                self._files.let_go(owner)
        raise UnreachableError(
            f"the data of {counted(len(microshards), 'microshard')} did not come within"
            f" {limit_s:g} s: {self._files.last_failure}"
        )

    def decided(self, height: int) -> None:
        """Lets go of what no lease needs any more."""
        oldest = height + 1 - self._setting.revision.schedule.lookahead
        for owner in [owner for owner, lease in self._leases.items() if lease < oldest]:
            self._files.let_go(owner)
            del self._leases[owner]

    async def bring_set(self, wanted: ArtifactId) -> None:
        """The manifest, without which a workload cannot be built. It tries until cancelled."""
        self._train_of(await self._files.find(wanted))

    async def bring_validation(self, wanted: ArtifactId) -> None:
        """All splits that are not trained on, for good; once they are here nothing is done any more.

        Raises:
            WorkloadError: they did not come in time.
            StoreError: there is no room for them.
        """
        if self._validates:
            return
        limit_s = self._setting.revision.schedule.check_limit_ms / 1000
        with trio.move_on_after(limit_s):
            shards = await self._files.find(wanted)
            files = [split.file(n) for split, n in shards.files() if split.name != TRAIN]
            try:
                await self._files.bring(files, f"{self._name}, validation")
            except RemoteError as error:
                raise WorkloadError(f"the validation data cannot be had: {error}") from error
            self._validates = True
            return
        raise WorkloadError(
            f"the validation data did not come within {limit_s:g} s: {self._files.last_failure}"
        )

    def _train_of(self, shards: ShardSet) -> Split:
        split, data = shards.split(TRAIN), self._setting.revision.data
        if split is None or split.samples != data.samples:
            has = "no split train" if split is None else counted(split.samples, "sample")
            raise RemoteError(
                f"data set {shards.id.hex()} has {has}, the revision says {data.samples}: it was"
                " published with other data"
            )
        return split

    def _files_of(self, split: Split, microshards: tuple[int, ...]) -> list[ShardFile]:
        data = self._setting.revision.data
        spans = (
            range(start, start + data.shard_size(shard))
            for shard in microshards
            for start in (shard * data.shard_samples,)
        )
        return [split.file(number) for number in split.files_of(spans)]


class SuppliedWorker:
    """A worker whose workload finds its data set here: port Worker."""

    def __init__(self, worker: Worker, supplies: Supplies, wanted: ArtifactId) -> None:
        self._worker = worker
        self._supplies = supplies
        self._set = wanted

    async def info(self) -> WorkloadInfo:
        await self._bring_set()
        return await self._worker.info()

    async def train(self, job: TrainJob) -> TrainResult:
        await self._bring_set()
        return await self._worker.train(job)

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        await self._bring_set()
        await self._supplies.bring_validation(self._set)
        return await self._worker.evaluate(job)

    async def _bring_set(self) -> None:
        try:
            await self._supplies.bring_set(self._set)
        except RemoteError as error:
            raise WorkloadError(str(error)) from error


def supplied(worker: Worker, supplies: Supplies, setting: Setting) -> Worker:
    """The worker itself where the revision's data come with no lease."""
    wanted = setting.revision.data.shard_set
    return worker if wanted is None else SuppliedWorker(worker, supplies, wanted)
