"""The certified object: one decision per height, each naming the one before.

The header is what is voted on. It binds the choices, the merged tensors, and the state that follows from them.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from p2pd.core.encoding import encode
from p2pd.core.governance import Governed
from p2pd.core.ids import ArtifactId, DecisionId, NetworkId, PeerId, RevisionId, TermId, digest
from p2pd.core.votes import Certificate
from p2pd.core.work import HeadStep, Merged, Progress


class Outcome(IntEnum):
    PROMOTED = 1
    IDLE = 2
    EMPTY = 3
    UNDECIDED = 4
    BLOCKED = 5
    FINISHED = 6

    @property
    def text(self) -> str:
        names = {Outcome.PROMOTED: "promoted", Outcome.BLOCKED: "kept(blocked-by-canary)"}
        return names.get(self, f"kept({self.name.lower()})")


class PlanState(IntEnum):
    RUNNING = 1
    IDLE = 2
    """Nobody to train: the height waits for a trainer's presence."""
    FINISHED = 3
    """The revision has come to its end."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What one trainer is to train on in one window."""

    peer: PeerId
    shards: tuple[int, ...]
    samples: int
    reserved: tuple[int, ...] = ()
    """Microshards to go on with while this window is decided: its lease in the next plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    height: int
    state: PlanState
    base: ArtifactId
    seed: bytes
    """Hash over a decision that was fixed before the cohort of the last window existed."""
    roster: tuple[Lease, ...]
    """Ascending by peer id."""
    reducers: tuple[PeerId, ...]
    earlier: tuple[ArtifactId, ...] = ()
    """Heads before the base from which a lease may have been started while it was reserved."""

    def lease_of(self, peer: PeerId) -> Lease | None:
        return next((lease for lease in self.roster if lease.peer == peer), None)


@dataclass(frozen=True, slots=True)
class Late:
    """The plan before, whose window is over, with those of its leases of which nothing was decided yet."""

    dealt: DecisionId
    """The decision that dealt it."""
    plan: Plan


@dataclass(frozen=True, slots=True)
class Returned:
    """A microshard that was dealt and not delivered."""

    shard: int
    times: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A peer's certified record. Moves by certified verdicts only."""

    peer: PeerId
    budget_shards: int
    """Size of its next lease."""
    delivered: int
    missed: int
    rejected: int
    wrong_merges: int
    score: int
    """0..FULL: halved by each harmful verdict or wrong merge, healed by an eighth of what is missing."""
    quarantined_until: int
    """Height from which it may serve again; 0 for never quarantined."""
    shard_us: int = 0
    """What a microshard takes it, by its own word, smoothed; 0: not known."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A trainer that was present and got no lease: who has waited longest is seated first."""

    peer: PeerId
    windows: int
    """For how many in a row."""


@dataclass(frozen=True, slots=True)
class LastMerge:
    """What the reducers of the window just decided should have merged: their answers are judged a height later."""

    plan: DecisionId
    inputs: bytes
    """Hash of the merge inputs."""
    reducers: tuple[PeerId, ...]


@dataclass(frozen=True)
class State:
    """What the next decision is derived from."""

    progress: Progress
    returned: tuple[Returned, ...]
    """Ascending by microshard."""
    in_hand: tuple[Returned, ...]
    """Those that the plan deals again, ascending by microshard: how often each was in vain before."""
    skipped: tuple[int, ...]
    """Microshards that this decision gives up for their epoch: dealt in vain too often; ascending."""
    given_up: int
    """How many all decisions of the present epoch gave up; each lists its own, so that the state does not grow."""
    exponents: tuple[int, ...] | None
    standing: tuple[Standing, ...]
    """Ascending by peer id."""
    suspended: tuple[PeerId, ...]
    """Validators named by evidence, in the order of their suspension."""
    pending: tuple[PeerId, ...]
    """Named by evidence, but their suspension would leave no quorum: the authority must act."""
    merge: LastMerge | None
    """None where nothing was merged."""
    governed: Governed
    plan: Plan
    late: Late | None = None
    """Updates for these leases may still be decided at the plan's height, and not after."""
    standby: tuple[Standby, ...] = ()
    """Those that were present for the plan and have no lease in it, ascending by peer id."""


@dataclass(frozen=True)
class Header:
    network: NetworkId
    term: TermId
    revision: RevisionId
    height: int
    previous: DecisionId | None
    """None for the genesis decision only."""
    members: bytes
    """Hash of the set that signs this decision."""
    next_members: bytes
    outcome: Outcome
    head: ArtifactId
    outer: ArtifactId | None
    choices: bytes
    """Hash of the encoded choices."""
    merged: bytes
    """Hash of the merge results, of null where nothing was merged."""
    state: bytes
    """Hash of the state."""

    @cached_property
    def id(self) -> DecisionId:
        return DecisionId(digest("decision", encode(self)))


@dataclass(frozen=True, slots=True)
class Decision:
    header: Header
    choices: bytes
    """Encoded Choices; empty in the genesis decision."""
    merged: Merged | None
    state: State

    @property
    def id(self) -> DecisionId:
        return self.header.id

    @property
    def height(self) -> int:
        return self.header.height

    @property
    def head(self) -> ArtifactId:
        return self.header.head

    @property
    def step(self) -> HeadStep | None:
        """What its head was made of, if it is a new one and was made of a step."""
        promoted = self.header.outcome is Outcome.PROMOTED and self.merged is not None
        return self.merged.step if promoted and self.merged else None


def open_plans(decision: Decision) -> tuple[tuple[DecisionId, Plan], ...]:
    """The plans whose updates may be decided next, each with the decision that dealt it."""
    late = decision.state.late
    now = (decision.id, decision.state.plan)
    return (now,) if late is None else (now, (late.dealt, late.plan))


def artifacts_of(decision: Decision) -> tuple[ArtifactId, ...]:
    """What a node needs in order to go on from a decision: the head, and the outer optimizer's state."""
    outer = decision.header.outer
    return (decision.head,) if outer is None else (decision.head, outer)


@dataclass(frozen=True)
class Record:
    """A decision with what shows that it was decided."""

    decision: Decision
    certificate: Certificate | None
    """None for the genesis decision only, which anyone derives from the signed revision."""

    @cached_property
    def encoded(self) -> bytes:
        """As it is stored and sent."""
        return encode(self)
