"""What a node and its role are to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, PublicKey
from p2pd.core.messages import Choices
from p2pd.core.signed import Scope, Signed
from p2pd.core.voting.events import View
from p2pd.core.voting.exchange import Inventory
from p2pd.core.work import RebuildJob
from p2pd.ports.outside import Math, Worker

T = TypeVar("T")


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

    def decision_at(self, height: int) -> Decision | None:
        """One that was adopted here; None where this node has leapt over it."""
        ...

    @property
    def math(self) -> Math: ...

    @property
    def worker(self) -> Worker: ...

    @property
    def paused(self) -> str:
        """Why a trainer rests, when its role starts; empty where it works."""
        ...

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
        """What this node published for the open windows, also before a restart."""
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

    def ways_to(self, head: ArtifactId) -> Sequence[RebuildJob]:
        """How a head is made, one step after the other, of one that is here; none if it cannot be, or is here."""
        ...

    async def bring_data(self, height: int, shards: tuple[int, ...]) -> None:
        """Has the data of these microshards here for the lease of a height.

        Raises:
            UnreachableError: they did not come in time.
            RemoteError: they are not what the revision says.
            StoreError: there is no room for them.
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

    def leave(self) -> Sequence[object]:
        """What tells others that this node goes; nothing else is asked of the role after it."""
        ...

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
