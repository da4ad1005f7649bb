"""All that a role or a node sees of the outside world.

Each port has two implementations, one in p2pd.io and one in p2pd.sim, and one contract test for both.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import trio

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.hello import Hello
from p2pd.core.ids import ArtifactId, PeerId, PublicKey
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


class Signer(Protocol):
    @property
    def key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes:
        """64 bytes: Ed25519 over message."""
        ...


@dataclass(frozen=True, slots=True)
class Link:
    """An authenticated connection to a peer of the same network and protocol version."""

    peer: PeerId
    hello: Hello
    remote: str
    """host:port as seen from here."""
    dialled: bool
    """True if this side opened it."""


class LinkHandler(Protocol):
    """What a transport calls. None of the synchronous calls may block or raise."""

    def connected(self, link: Link) -> None: ...

    def disconnected(self, link: Link, why: str) -> None: ...

    def received(self, peer: PeerId, message: bytes) -> None:
        """One message of the control lane, in the order in which the peer sent it."""
        ...

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        """The response to one request. A RemoteError refuses it: the asker gets the text of the error."""
        ...


class Transport(Protocol):
    """Authenticated links to peers. Messages may be lost with their link; what arrives is never altered."""

    @property
    def peer(self) -> PeerId: ...

    @property
    def address(self) -> str:
        """Where this node takes connections, host:port; empty when it takes none."""
        ...

    def links(self) -> tuple[Link, ...]:
        """At most one per peer, ascending by peer id."""
        ...

    async def connect(self, address: str, peer: PeerId | None) -> Link:
        """Opens a link, or returns the one that exists.

        Raises:
            UnreachableError: nobody answers within the dial deadline.
            RemoteError: another peer id, another network, another protocol version, or refused.
        """
        ...

    def send(self, peer: PeerId, message: bytes, *, patient: bool = False) -> bool:
        """Queues a control message; patient: it may wait a moment for others. False, and dropped: no link, or full."""
        ...

    async def drain(self) -> None:
        """Returns once what was sent has arrived, as far as its links live. The caller owns the deadline."""
        ...

    async def request(self, peer: PeerId, message: bytes, *, limit_bytes: int) -> bytes:
        """Asks on a stream of its own. The caller owns the deadline.

        Raises:
            UnreachableError: no link, or it ended before the whole response came.
            RemoteError: the peer refused, or its response exceeds limit_bytes.
        """
        ...

    def disconnect(self, peer: PeerId, why: str) -> None:
        """Closes the link to a peer, if any, telling it why."""
        ...

    async def run(
        self, handler: LinkHandler, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serves links until cancelled; started once the address is known. Cancelling closes every link."""
        ...


class Table(Enum):
    DECISIONS = "decisions"
    """revision + height (8 bytes, big-endian): encoded decision record."""
    VOTING = "voting"
    """revision: the validator's durable voting state."""
    OBJECTS = "objects"
    """revision + height + object id: signed objects of open heights, own and others'."""
    REVISIONS = "revisions"
    """revision: signed revision record."""
    REPORTS = "reports"
    """revision + height + peer: signed metric report."""
    PEERS = "peers"
    """peer: signed peer record."""
    FORKS = "forks"
    """revision + height: the two certificates of a height that was decided twice."""
    GOVERNANCE = "governance"
    """number (8 bytes, big-endian): signed governance record."""
    OWNER = "owner"
    """peer, network: whose ledger it is."""


@dataclass(frozen=True, slots=True)
class Write:
    table: Table
    key: bytes
    value: bytes | None
    """None deletes."""


class Ledger(Protocol):
    """Durable, ordered tables of bytes."""

    async def commit(self, writes: Sequence[Write]) -> None:
        """All of writes or none, on stable storage when it returns.

        Raises:
            NoRoomError: the disk is full. Nothing of writes was kept, nor is it where a StoreError says that
                the disk fails.
        """
        ...

    def get(self, table: Table, key: bytes) -> bytes | None: ...

    def scan(
        self, table: Table, prefix: bytes, *, after: bytes = b"", limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        """Keys that start with prefix and are greater than after, ascending."""
        ...

    def last(self, table: Table, prefix: bytes) -> tuple[bytes, bytes] | None:
        """The greatest key that starts with prefix."""
        ...


class BlobStore(Protocol):
    """Artifacts on this node: complete ones, and those whose chunks are still coming."""

    def has(self, artifact: ArtifactId) -> bool:
        """Complete and verified."""
        ...

    async def check(self, artifact: ArtifactId) -> bool:
        """Complete, and its bytes are still its own. What is damaged is dropped, and can be fetched again."""
        ...

    def manifest(self, artifact: ArtifactId) -> Manifest | None:
        """Also of an artifact that is not complete yet."""
        ...

    async def put(
        self, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes = b""
    ) -> ArtifactId:
        """Stores a whole artifact that is small enough for memory."""
        ...

    async def put_fetched(
        self, artifact: ArtifactId, kind: ArtifactKind, schema: bytes, data: bytes, owner: bytes
    ) -> bool:
        """Stores one that came from a peer. False, and nothing is kept, if data is not it. Raises as begin."""
        ...

    async def begin(self, manifest: Manifest) -> ArtifactId:
        """Makes room for an artifact that will come in chunks; keeps the chunks that are there already.

        Raises:
            NoRoomError: quota or disk reserve would be exceeded.
        """
        ...

    def missing(self, artifact: ArtifactId) -> tuple[int, ...]:
        """Chunks still to come, of an artifact that was begun; empty when complete."""
        ...

    async def write(self, artifact: ArtifactId, index: int, data: bytes) -> None:
        """Adds one chunk of an artifact that was begun. The last one completes it.

        Raises:
            RemoteError: data is not that chunk.
        """
        ...

    async def read(self, artifact: ArtifactId, index: int) -> bytes | None:
        """One chunk, or None if it is not here."""
        ...

    def pin(self, artifact: ArtifactId, owner: str) -> None:
        """Keeps it until owner unpins it. An artifact may have several owners."""
        ...

    def unpin(self, artifact: ArtifactId, owner: str) -> None: ...

    def held(self, kind: ArtifactKind) -> tuple[Manifest, ...]:
        """Of all artifacts of a kind, complete or not; what goes first to make room comes first."""
        ...

    def touch(self, artifact: ArtifactId) -> None:
        """It was used: others go before it to make room."""
        ...

    async def drop(self, artifact: ArtifactId) -> bool:
        """Removes an artifact that nobody has pinned. False: there is none such."""
        ...

    async def keep(self, artifact: ArtifactId) -> None:
        """Pins it for good, over restarts too, whether it is here yet or not."""
        ...


class Reading(Protocol):
    """A file on its way here."""

    async def next(self) -> bytes:
        """The next chunk of it: of CHUNK_BYTES, or what is left; empty at the end.

        Raises:
            UnreachableError: it does not go on, or not in time.
        """
        ...


class DataSource(Protocol):
    """A place besides peers from which files of data sets come. Whoever reads checks what it gives."""

    @property
    def name(self) -> str:
        """As its owner wrote it, for people."""
        ...

    def read(
        self, file: str, manifest: Manifest | None, chunk: int
    ) -> AbstractAsyncContextManager[Reading]:
        """A file of a set from one of its chunks on; manifest: what it must be, None where nobody knows yet.

        Raises:
            UnreachableError: it cannot be had now.
            RemoteError: what is there is something else.
        """
        ...


class Math(Protocol):
    """Exact tensor arithmetic in a process of its own, on artifacts that are complete in the store."""

    async def inspect(self, job: InspectJob) -> Inspection: ...

    async def merge(self, job: MergeJob) -> Merged:
        """Merges, and keeps the merged head (and outer state) in the blob store."""
        ...

    async def rebuild(self, job: RebuildJob) -> None:
        """Makes a head of the one before and its step, and keeps it in the blob store.

        Raises:
            RemoteError: another head comes out, or a file is not what it should be.
            StoreError: one of them is not here.
        """
        ...

    async def self_test(self) -> None:
        """Merges a golden input.

        Raises:
            LocalError: other bits came out: this machine must not vote.
        """
        ...


class Worker(Protocol):
    """The user's workload in a process of its own. Cancelling a call abandons its work only."""

    async def info(self) -> WorkloadInfo:
        """Builds the workload if that has not happened yet.

        Raises, as all calls do:
            WorkloadError: the workload failed, hung past its deadline, or died; the message says how.
        """
        ...

    async def train(self, job: TrainJob) -> TrainResult:
        """Trains one lease from job.base and keeps the update in the blob store."""
        ...

    async def evaluate(self, job: EvaluateJob) -> Evaluation: ...
