"""Which microshards each trainer gets in the next window. All of it follows from certified state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from p2pd.core.decision import Late, Lease, Plan, PlanState, Returned, Standby, State
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, digest
from p2pd.core.permutation import shard_at
from p2pd.core.revision import Revision

MAX_DEALT_IN_VAIN = 3
"""A microshard dealt this often without being delivered is skipped for the epoch."""
REDUCERS = 2
"""Reducers drawn per window."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Leases of a plan of which nothing was decided, and for which its updates may still come."""

    peers: frozenset[PeerId]
    dealt: DecisionId
    """The decision that dealt the plan."""


def take_back(
    state: State,
    delivered: frozenset[PeerId],
    *,
    in_vain: bool,
    late: frozenset[PeerId] = frozenset(),
    waiting: Waiting | None = None,
) -> State:
    """The state after the leases of its plan ended: what was not delivered waits to be dealt again.

    in_vain is False where the window itself was void, so that nobody's fault is counted. late names those who
    delivered their lease of the window before; those who did not have no more time. What is reserved stays reserved.
    """
    held = waiting.peers if waiting else frozenset()
    state = replace(state, skipped=())
    if state.late is not None:
        overdue = [lease for lease in state.late.plan.roster if lease.peer not in late]
        state = _returned(state, [lease.shards for lease in overdue], in_vain=in_vain)
    ended = [lease for lease in state.plan.roster if lease.peer not in delivered | held]
    state = _returned(state, [lease.shards for lease in ended], in_vain=in_vain)
    still = tuple(replace(one, reserved=()) for one in state.plan.roster if one.peer in held)
    if waiting is None or not still:
        return _forget(replace(state, late=None))
    plan = replace(state.plan, roster=still, reducers=())
    return _forget(replace(state, late=Late(waiting.dealt, plan)))


def _returned(state: State, leases: Iterable[tuple[int, ...]], *, in_vain: bool) -> State:
    """Microshards that were out come back, or are skipped if that has happened too often."""
    times = {entry.shard: entry.times for entry in state.returned}
    skipped = list(state.skipped)
    dealt_before = _times_in_hand(state)
    for shards in leases:
        for shard in shards:
            count = dealt_before.get(shard, 0) + (1 if in_vain else 0)
            if count >= MAX_DEALT_IN_VAIN:
                skipped.append(shard)
            else:
                times[shard] = count
    returned = tuple(Returned(shard, times[shard]) for shard in sorted(times))
    given_up = state.given_up + len(skipped) - len(state.skipped)
    return replace(state, returned=returned, skipped=tuple(sorted(skipped)), given_up=given_up)


def _forget(state: State) -> State:
    """Keeps count only of what is still out: the reserved leases and the late ones."""
    out = {shard for lease in state.plan.roster for shard in lease.reserved}
    if state.late is not None:
        out.update(shard for lease in state.late.plan.roster for shard in lease.shards)
    return replace(state, in_hand=tuple(entry for entry in state.in_hand if entry.shard in out))


def _times_in_hand(state: State) -> dict[int, int]:
    return {entry.shard: entry.times for entry in state.in_hand}


@dataclass(frozen=True, slots=True)
class Table:
    """What a plan is dealt for."""

    height: int
    base: ArtifactId
    before: DecisionId | None
    """The decision whose id the seed rests on: fixed before the last cohort existed."""
    present: tuple[PeerId, ...]
    reducers: tuple[PeerId, ...]
    earlier: tuple[ArtifactId, ...] = ()


def deal(state: State, revision: Revision, table: Table) -> State:
    """The state with a new plan in it, dealt to the peers that are present."""
    seed = digest("plan-seed", revision.id + (table.before or b"") + table.height.to_bytes(8))
    plan = Plan(
        height=table.height,
        state=PlanState.IDLE,
        base=table.base,
        seed=seed,
        roster=(),
        reducers=_drawn(seed, table.reducers, REDUCERS),
        earlier=table.earlier,
    )
    carried = {lease.peer: lease.reserved for lease in state.plan.roster if lease.reserved}
    waited = {entry.peer: entry.windows for entry in state.standby}
    roster = _seated(seed, table.present, carried, waited)[: revision.schedule.max_roster]
    state = _release(state, carried, keep=roster)
    state = _next_epoch_if_done(state, revision, busy=any(peer in carried for peer in roster))
    finished = state.governed.over(state.progress)
    if finished or not roster:
        kept = {peer: carried[peer] for peer in roster if peer in carried}
        state = _give_up_late(_release(state, kept, keep=()), in_vain=False)
        plan = replace(plan, state=PlanState.FINISHED if finished else PlanState.IDLE)
        return replace(state, plan=plan, standby=())
    state = _Dealer(state, revision).deal(plan, roster, carried, present=len(table.present))
    return replace(state, standby=_standing_by(state.plan, table.present, waited))


def _seated(
    seed: bytes,
    present: tuple[PeerId, ...],
    carried: Mapping[PeerId, object],
    waited: Mapping[PeerId, int],
) -> tuple[PeerId, ...]:
    """All, those who waited longest first, then who goes on with a reserved lease; else in drawn order.

    So each of n that stay present is seated within n / seats windows, rounded up, whatever the draws.
    """
    drawn = _drawn(seed, present, len(present))
    return tuple(sorted(drawn, key=lambda peer: (-waited.get(peer, 0), peer not in carried)))


def _standing_by(
    plan: Plan, present: tuple[PeerId, ...], waited: Mapping[PeerId, int]
) -> tuple[Standby, ...]:
    leased = {lease.peer for lease in plan.roster}
    waiting = sorted(peer for peer in present if peer not in leased)
    return tuple(Standby(peer, waited.get(peer, 0) + 1) for peer in waiting)


def _release(
    state: State, carried: Mapping[PeerId, tuple[int, ...]], keep: Iterable[PeerId]
) -> State:
    """Reserved leases of all but some come back; nobody was late with them."""
    kept = frozenset(keep)
    gone = [shards for peer, shards in sorted(carried.items()) if peer not in kept]
    state = _returned(state, gone, in_vain=False)
    back = {shard for shards in gone for shard in shards}
    return replace(state, in_hand=tuple(one for one in state.in_hand if one.shard not in back))


def _give_up_late(state: State, *, in_vain: bool) -> State:
    if state.late is None:
        return state
    shards = [lease.shards for lease in state.late.plan.roster]
    return _forget(replace(_returned(state, shards, in_vain=in_vain), late=None))


def _drawn(seed: bytes, peers: Iterable[PeerId], most: int) -> tuple[PeerId, ...]:
    """Rendezvous hashing: each window another fair draw, the same on every node."""
    return tuple(sorted(peers, key=lambda peer: digest("draw", seed + peer))[:most])


def _next_epoch_if_done(state: State, revision: Revision, *, busy: bool) -> State:
    """busy: something of this epoch is still reserved, so that it cannot end."""
    if state.returned or state.progress.cursor < revision.data.shards or busy:
        return state
    # Nothing else is left of this epoch: whoever is late is not waited for.
    state = _give_up_late(state, in_vain=True)
    if state.returned:
        return state
    progress = replace(state.progress, epoch=state.progress.epoch + 1, cursor=0)
    return replace(state, progress=progress, given_up=0)


class _Dealer:
    """Hands out what came back first, then the epoch's next microshards."""

    def __init__(self, state: State, revision: Revision) -> None:
        self._state = state
        self._revision = revision
        self._again = list(state.returned)
        self._cursor = state.progress.cursor
        self._out = list(state.in_hand)

    def deal(
        self,
        plan: Plan,
        roster: tuple[PeerId, ...],
        carried: Mapping[PeerId, tuple[int, ...]],
        *,
        present: int,
    ) -> State:
        fresh = self._shared([peer for peer in roster if peer not in carried])
        mine = {peer: carried.get(peer) or fresh.get(peer, ()) for peer in roster}
        working = [peer for peer in roster if mine[peer]]
        reserved = self._shared(working[: self._staying(present - len(working))])
        leases = [
            Lease(peer, mine[peer], self._samples(mine[peer]), reserved.get(peer, ()))
            for peer in working
        ]
        return replace(
            self._state,
            progress=replace(self._state.progress, cursor=self._cursor),
            returned=tuple(self._again),
            in_hand=tuple(sorted(self._out, key=lambda entry: entry.shard)),
            plan=replace(plan, state=PlanState.RUNNING, roster=_by_peer(leases)),
        )

    def _staying(self, waiting: int) -> int:
        """How many may go on with a reserved lease: the next seats belong to those who wait now."""
        schedule = self._revision.schedule
        return max(0, schedule.max_roster - waiting) if schedule.lookahead else 0

    def _samples(self, shards: tuple[int, ...]) -> int:
        return sum(map(self._revision.data.shard_size, shards))

    def _shared(self, peers: Sequence[PeerId]) -> dict[PeerId, tuple[int, ...]]:
        budgets = {row.peer: row.budget_shards for row in self._state.standing}
        wanted = [budgets.get(peer, self._revision.schedule.lease_shards) for peer in peers]
        left = len(self._again) + self._revision.data.shards - self._cursor
        counts = _shares(wanted, left)
        return {peer: self._take(count) for peer, count in zip(peers, counts, strict=True)}

    def _take(self, count: int) -> tuple[int, ...]:
        again, self._again = self._again[:count], self._again[count:]
        self._out += again
        end = self._cursor + count - len(again)
        places, self._cursor = range(self._cursor, end), end
        return tuple(sorted([entry.shard for entry in again] + [*map(self._shard_at, places)]))

    def _shard_at(self, place: int) -> int:
        epoch, shards = self._state.progress.epoch, self._revision.data.shards
        return shard_at(self._revision.seed, epoch, place, shards)


def _by_peer(leases: list[Lease]) -> tuple[Lease, ...]:
    return tuple(sorted(leases, key=lambda lease: lease.peer))


def _shares(wanted: list[int], available: int) -> list[int]:
    """What each gets: all that it wants, or its proportional part of what there is, remainder to the first."""
    total = sum(wanted)
    if total <= available:
        return wanted
    shares = [want * available // total for want in wanted]
    for index in range(available - sum(shares)):
        shares[index] += 1
    return shares
