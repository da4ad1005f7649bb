"""All that a role or a node sees of the outside world.

Each port has two implementations, one in p2pd.io and one in p2pd.sim, and one contract test for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

import trio

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting
from p2pd.core.hello import Hello
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, PublicKey
from p2pd.core.messages import Choices
from p2pd.core.signed import Scope, Signed
from p2pd.core.voting.events import View
from p2pd.core.voting.exchange import Inventory
from p2pd.core.work import (
    EvaluateJob,
    Evaluation,
    Inspection,
    InspectJob,
    Merged,
    MergeJob,
    TrainJob,
    TrainResult,
    WorkloadInfo,
)

T = TypeVar("T")


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

    async def keep(self, artifact: ArtifactId) -> None:
        """Pins it for good, over restarts too, whether it is here yet or not."""
        ...


class Math(Protocol):
    """Exact tensor arithmetic in a process of its own, on artifacts that are complete in the store."""

    async def inspect(self, job: InspectJob) -> Inspection: ...

    async def merge(self, job: MergeJob) -> Merged:
        """Merges, and keeps the merged head (and outer state) in the blob store."""
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


class Services(Protocol):
    """What a node does for its role at one revision."""

    @property
    def setting(self) -> Setting: ...

    @property
    def key(self) -> PublicKey: ...

    @property
    def decision(self) -> Decision:
        """The last one adopted."""
        ...

    @property
    def math(self) -> Math: ...

    @property
    def worker(self) -> Worker: ...

    @property
    def private_seed(self) -> int:
        """Known to this node alone, the same after a restart."""
        ...

    def sign(self, kind: str, scope: Scope, content: T) -> Signed[T]: ...

    def open_choices(self, data: bytes) -> Choices:
        """Raises RemoteError: malformed, or a nested signature is false."""
        ...

    def stored_votes(self) -> bytes | None:
        """What remember_votes stored for the open height."""
        ...

    def own_objects(self) -> tuple[Signed[Any], ...]:
        """What this node published for the open height, also before a restart."""
        ...

    async def remember_votes(self, height: int, state: bytes) -> None:
        """Durable when it returns."""
        ...

    async def publish(self, signed: Signed[Any]) -> None:
        """Stores it durably as this node's own, then floods it; this node's role sees it too."""
        ...

    async def adopt(self, record: Record, *, derived: bool = False) -> None:
        """Checks and persists the next decision, announces it, opens the height after it; derived: by this node."""
        ...

    async def fetch(
        self,
        artifact: ArtifactId,
        kind: ArtifactKind,
        providers: Sequence[PeerId],
        owner: bytes = b"",
    ) -> bool:
        """Brings an artifact here, from these providers first; owner is what its manifest must name.

        False if it is something else, or did not come within the check limit.
        """
        ...

    def keep(self, artifact: ArtifactId) -> None:
        """Holds on to an artifact until the open height is adopted: who votes for it must serve it."""
        ...

    async def fetch_choices(self, value: DecisionId, holders: Sequence[PeerId]) -> bytes | None:
        """The choices behind a value that is not certified yet."""
        ...


@dataclass(frozen=True, slots=True)
class RoleView:
    """What a role shows of itself."""

    activity: str
    """In a few words: training 144 samples, waiting for a lease, voting in round 0."""
    voting: View | None


class Role(Protocol):
    """A plugin at one revision: a pure machine, and how its effects are carried out."""

    def start(self, now_s: float) -> Sequence[object]:
        """The first effects; called once, when the chain stands where it stood before a restart."""
        ...

    def handle(self, event: object, now_s: float) -> Sequence[object]: ...

    def tick(self, now_s: float) -> Sequence[object]: ...

    def next_deadline_s(self) -> float | None: ...

    def is_job(self, effect: object) -> bool:
        """Jobs run beside everything else; other effects are carried out in order, one after the other."""
        ...

    async def carry_out(self, effect: object) -> object | None:
        """Does what the effect says; what it returns is the machine's next event."""
        ...

    def choices_of(self, value: DecisionId) -> bytes | None:
        """The choices behind an undecided value, for validators that lack them."""
        ...

    def holdings(self) -> Inventory | None:
        """The votes of the open height that it holds; None where it does not vote."""
        ...

    def lacking(self, theirs: Inventory) -> Sequence[Signed[Any]]:
        """The votes and proposals that another validator lacks."""
        ...

    def view(self) -> RoleView: ...


class RolePlugin(Protocol):
    """What the entry point group p2pd.roles names. One instance serves all revisions of a node."""

    name: str
    needs_worker: bool
    """It runs the user's workload."""
    needs_math: bool
    offers: tuple[str, ...]
    """What its hello says: who gets which messages and artifacts."""

    def at(self, services: Services) -> Role: ...
