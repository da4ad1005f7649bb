"""The scripted workload on a data set in shard files, which nodes fetch by lease as real ones do. Units: samples."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from hashlib import sha256
from random import Random

from p2pd.core.artifact import ArtifactKind
from p2pd.core.genesis import Genesis
from p2pd.core.ids import ArtifactId
from p2pd.core.revision import DataSpec, SignedRevision
from p2pd.core.samples import dump_sample, load_sample
from p2pd.core.shards import TRAIN, ShardSet, Split, pack_shard, unpack_shard
from p2pd.core.work import EvaluateJob, Evaluation, TrainJob, TrainResult, WorkloadInfo
from p2pd.errors import StoreError, WorkloadError
from p2pd.ports import Math, Worker
from p2pd.sim import scripted
from p2pd.sim.breaking import Audience
from p2pd.sim.chains import revision_of
from p2pd.sim.lives import Life
from p2pd.sim.shape import FleetShape
from p2pd.sim.signing import SimSigner
from p2pd.sim.store import MemoryBlobs
from p2pd.sim.subject import SCRIPTED
from p2pd.wire.records import seal_revision

FILE_SAMPLES = scripted.SHARD_SAMPLES
"""A microshard is a file."""


@cache
def numbers() -> tuple[ShardSet, tuple[bytes, ...]]:
    """Sample n of each split says n; and the files of both, in order."""
    splits, files = [], []
    for name, samples in ((TRAIN, scripted.TRAIN_SAMPLES), ("valid", scripted.VALIDATION_SAMPLES)):
        records = [dump_sample((name, n)) for n in range(samples)]
        packed = [
            pack_shard(records[n : n + FILE_SAMPLES]) for n in range(0, samples, FILE_SAMPLES)
        ]
        chunks = b"".join(sha256(data).digest() for data in packed)  # each is less than a chunk
        splits.append(Split(name, samples, FILE_SAMPLES, tuple(map(len, packed)), chunks))
        files += packed
    return ShardSet(tuple(splits)), tuple(files)


class ShardedSubject:
    """Implements Subject. Remembers what each node was leased, and which files it had when it trained."""

    head = SCRIPTED.head
    quota_bytes = SCRIPTED.quota_bytes

    def __init__(self) -> None:
        self.shards, files = numbers()
        self.data = (
            (ArtifactKind.SHARD_SET, self.shards.encoded),
            *((ArtifactKind.SHARD, data) for data in files),
        )
        self.leased: dict[str, set[int]] = defaultdict(set)
        """Files of the training set, by the name of the node."""
        self.held: dict[str, set[int]] = {}
        self.ahead: dict[str, set[int]] = defaultdict(set)
        """Of these, what was here before its lease was begun, since it was reserved."""

    def revision(
        self, seed: int, shape: FleetShape, genesis: Genesis, number: int
    ) -> SignedRevision:
        plain = revision_of(seed, shape, genesis, number).revision
        data = DataSpec(
            "sharded", plain.data.samples, plain.data.shard_samples, self.shards.id.hex()
        )
        return seal_revision(replace(plain, data=data), (SimSigner(seed, "authority"),))

    def math(self, life: Life, dice: Random, told: Audience) -> Math:
        return SCRIPTED.math(life, dice, told)

    def worker(self, life: Life, dice: Random, doubts: float) -> Worker:
        return ReadingWorker(SCRIPTED.worker(life, dice, doubts), life.blobs, life.name, self)


class ReadingWorker:
    """Port Worker: reads every sample of its lease, and all that it evaluates on, from the files that are here."""

    def __init__(
        self, worker: Worker, blobs: MemoryBlobs, name: str, subject: ShardedSubject
    ) -> None:
        self._worker = worker
        self._blobs = blobs
        self._name = name
        self._subject = subject
        train, self._valid = subject.shards.splits
        self._train = train
        self._files = {train.manifest(n).id: n for n in range(len(train.sizes))}

    async def info(self) -> WorkloadInfo:
        self._read(self._subject.shards.id)
        return await self._worker.info()

    async def train(self, job: TrainJob) -> TrainResult:
        subject, name = self._subject, self._name
        subject.leased[name].update(job.shards)
        for shard in job.shards:
            self._read_samples(self._train, shard)
        result = await self._worker.train(job)
        subject.held[name] = {self._files[one.id] for one in self._blobs.held(ArtifactKind.SHARD)}
        subject.ahead[name] |= subject.held[name] - subject.leased[name]
        return result

    async def evaluate(self, job: EvaluateJob) -> Evaluation:
        for number in range(len(self._valid.sizes)):
            self._read_samples(self._valid, number)
        return await self._worker.evaluate(job)

    def _read_samples(self, split: Split, number: int) -> None:
        first = number * FILE_SAMPLES
        for place, record in enumerate(unpack_shard(self._read(split.manifest(number).id)), first):
            if load_sample(record) != (split.name, place):
                raise WorkloadError(f"sample {place} of split {split.name} is another one")

    def _read(self, artifact: ArtifactId) -> bytes:
        try:
            return self._blobs.payload(artifact)
        except StoreError as error:
            raise WorkloadError(f"data are not here: {error}") from error
