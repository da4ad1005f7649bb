"""Which microshards each trainer gets in the next window. All of it follows from certified state."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from p2pd.core.decision import Lease, Plan, PlanState, Returned, State
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, digest
from p2pd.core.permutation import shard_at
from p2pd.core.revision import Revision
from p2pd.core.work import Progress

MAX_DEALT_IN_VAIN = 3
"""A microshard dealt this often without being delivered is skipped for the epoch."""
REDUCERS = 2
"""Reducers drawn per window."""


def take_back(state: State, delivered: frozenset[PeerId], *, in_vain: bool) -> State:
    """The state after the leases of its plan ended: what was not delivered waits to be dealt again.

    in_vain is False where the window itself was void, so that nobody's fault is counted.
    """
    times = {entry.shard: entry.times for entry in state.returned}
    skipped = list(state.skipped)
    dealt_before = _times_in_hand(state)
    for lease in state.plan.roster:
        if lease.peer in delivered:
            continue
        for shard in lease.shards:
            count = dealt_before.get(shard, 0) + (1 if in_vain else 0)
            if count >= MAX_DEALT_IN_VAIN:
                skipped.append(shard)
            else:
                times[shard] = count
    returned = tuple(Returned(shard, times[shard]) for shard in sorted(times))
    return replace(
        state, returned=returned, skipped=tuple(sorted(skipped)), left_out=(), in_hand=()
    )


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
    )
    state = _next_epoch_if_done(state, revision)
    if is_finished(state.progress, revision):
        return replace(state, plan=replace(plan, state=PlanState.FINISHED))
    # In drawn order, so that no peer is always first in line for what others returned.
    roster = _drawn(seed, table.present, revision.schedule.max_roster)
    if not roster:
        return replace(state, plan=plan)
    return _deal_to(state, revision, plan, roster)


def is_finished(progress: Progress, revision: Revision) -> bool:
    schedule = revision.schedule
    return bool(
        (schedule.end_heads and progress.heads >= schedule.end_heads)
        or (schedule.end_epochs and progress.epoch >= schedule.end_epochs)
    )


def _drawn(seed: bytes, peers: Iterable[PeerId], most: int) -> tuple[PeerId, ...]:
    """Rendezvous hashing: each window another fair draw, the same on every node."""
    return tuple(sorted(peers, key=lambda peer: digest("draw", seed + peer))[:most])


def _next_epoch_if_done(state: State, revision: Revision) -> State:
    progress = state.progress
    if state.returned or progress.cursor < revision.data.shards:
        return state
    progress = replace(progress, epoch=progress.epoch + 1, cursor=0)
    return replace(state, progress=progress, skipped=(), left_out=state.skipped)


def _deal_to(state: State, revision: Revision, plan: Plan, roster: tuple[PeerId, ...]) -> State:
    data, progress = revision.data, state.progress
    budgets = {row.peer: row.budget_shards for row in state.standing}
    wanted = [budgets.get(peer, revision.schedule.lease_shards) for peer in roster]
    fresh = data.shards - progress.cursor
    counts = _shares(wanted, len(state.returned) + fresh)

    total = sum(counts)
    again = state.returned[:total]
    places = range(progress.cursor, progress.cursor + total - len(again))
    new = [shard_at(revision.seed, progress.epoch, place, data.shards) for place in places]
    shards = [entry.shard for entry in again] + new

    leases = []
    for peer, count in zip(roster, counts, strict=True):
        mine, shards = tuple(sorted(shards[:count])), shards[count:]
        if mine:
            leases.append(Lease(peer, mine, sum(map(data.shard_size, mine))))
    return replace(
        state,
        progress=replace(progress, cursor=places.stop),
        returned=state.returned[len(again) :],
        in_hand=tuple(again),
        plan=replace(plan, state=PlanState.RUNNING, roster=_by_peer(leases)),
    )


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
