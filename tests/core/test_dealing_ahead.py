"""Dealing with lookahead: reserved leases, and leases that are delivered a window late."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from p2pd.core.dealing import MAX_DEALT_IN_VAIN, Waiting, deal, take_back
from p2pd.core.decision import PlanState, State
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, digest
from p2pd.core.revision import DataSpec, Revision
from tests.core.builders import GENESIS
from tests.core.test_dealing import NOBODY, PEERS, small, table

OLD = ArtifactId(digest("artifact", b"old head"))


def ahead(samples: int = 227, **schedule: int) -> Revision:
    return small(samples, lookahead=1, **schedule)


def window(
    state: State,
    revision: Revision,
    present: tuple[PeerId, ...],
    delivered: frozenset[PeerId] = NOBODY,
    *,
    late: frozenset[PeerId] = NOBODY,
    waiting: frozenset[PeerId] = NOBODY,
) -> State:
    dealt = DecisionId(digest("decision", state.plan.height.to_bytes(8)))
    after = take_back(state, delivered, in_vain=True, late=late, waiting=Waiting(waiting, dealt))
    return deal(after, revision, table(state.plan.height + 1, present))


def started(revision: Revision, count: int = 2) -> State:
    return deal(GENESIS.state, revision, table(1, PEERS[:count]))


def shards_of(state: State) -> list[int]:
    """Everything that is out."""
    late = state.late.plan.roster if state.late else ()
    return [
        *(shard for lease in state.plan.roster for shard in (*lease.shards, *lease.reserved)),
        *(shard for lease in late for shard in lease.shards),
    ]


class Ahead(RuleBasedStateMachine):
    """Windows in which leases are delivered in time, late, never, or void; what counted is kept beside."""

    @initialize(
        lease=st.integers(1, 4), roster=st.integers(1, 5), samples=st.sampled_from([1, 57, 227])
    )
    def begin(self, lease: int, roster: int, samples: int) -> None:
        plain = ahead(lease_shards=lease, max_roster=roster)
        self.revision = replace(plain, data=DataSpec("indexed", samples, min(10, samples)))
        self.state = started(self.revision)
        self.counted: set[int] = set()
        self.skipped: set[int] = set()

    @rule(
        fates=st.lists(st.sampled_from(["in time", "silent", "rejected"]), min_size=7, max_size=7),
        late=st.sets(st.sampled_from(PEERS)),
        present=st.sets(st.sampled_from(PEERS)),
    )
    def promoted(self, fates: list[str], late: set[PeerId], present: set[PeerId]) -> None:
        fate = dict(zip(PEERS, fates, strict=True))
        roster = self.state.plan.roster
        delivered = frozenset(lease.peer for lease in roster if fate[lease.peer] == "in time")
        silent = frozenset(lease.peer for lease in roster if fate[lease.peer] == "silent")
        overdue = self.state.late.plan.roster if self.state.late else ()
        for lease in (
            *(lease for lease in roster if lease.peer in delivered),
            *(lease for lease in overdue if lease.peer in late),
        ):
            assert self.counted.isdisjoint(lease.shards)
            self.counted.update(lease.shards)
        self.step(present, delivered, late=frozenset(late), waiting=silent)

    @rule(present=st.sets(st.sampled_from(PEERS)))
    def kept(self, present: set[PeerId]) -> None:
        self.step(present, NOBODY, late=NOBODY, waiting=NOBODY)

    def step(
        self,
        present: set[PeerId],
        delivered: frozenset[PeerId],
        *,
        late: frozenset[PeerId],
        waiting: frozenset[PeerId],
    ) -> None:
        before, here = self.state, tuple(sorted(present))
        self.state = window(before, self.revision, here, delivered, late=late, waiting=waiting)
        for lease in before.plan.roster:
            following = self.state.plan.lease_of(lease.peer)
            if lease.reserved and following is not None:
                assert following.shards == lease.reserved
        self.skipped |= set(self.state.skipped)
        if self.state.progress.epoch != before.progress.epoch:
            everything = set(range(self.revision.data.shards))
            assert self.counted | self.skipped == everything
            assert not self.counted & self.skipped
            self.counted, self.skipped = set(), set()
        assert self.state.given_up == len(self.skipped)

    @invariant()
    def every_microshard_is_in_one_place(self) -> None:
        state = self.state
        returned = [entry.shard for entry in state.returned]
        places = [*shards_of(state), *returned, *self.skipped, *self.counted]
        assert len(set(places)) == len(places) == state.progress.cursor

    @invariant()
    def what_is_late_was_leased_one_window_ago(self) -> None:
        late = self.state.late
        if late is not None:
            assert late.plan.height == self.state.plan.height - 1
            assert all(lease.shards and not lease.reserved for lease in late.plan.roster)
            assert self.state.plan.state is PlanState.RUNNING

    @invariant()
    def vain_deals_are_few_and_of_what_is_out(self) -> None:
        out = set(shards_of(self.state))
        for entry in self.state.in_hand:
            assert entry.shard in out
            assert entry.times < MAX_DEALT_IN_VAIN

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        state = self.state
        if state.plan.state is PlanState.RUNNING:
            assert state.plan.roster
            assert all(lease.shards and lease.samples for lease in state.plan.roster)


TestI07WithLookaheadEachMicroshardIsCountedAtMostOnce = Ahead.TestCase
TestI07WithLookaheadEachMicroshardIsCountedAtMostOnce.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None
)


def test_what_is_reserved_is_the_lease_of_the_next_plan_whoever_joins() -> None:
    revision = ahead(lease_shards=2)
    first = started(revision)
    assert all(len(lease.reserved) == 2 for lease in first.plan.roster)
    second = window(first, revision, PEERS[:4], frozenset(PEERS[:2]))
    for lease in first.plan.roster:
        following = second.plan.lease_of(lease.peer)
        assert following is not None
        assert following.shards == lease.reserved
    assert len(second.plan.roster) == 4


def test_what_was_reserved_for_one_that_left_is_dealt_again_and_is_nobodys_fault() -> None:
    revision = ahead(lease_shards=2)
    first = started(revision)
    gone = first.plan.roster[0]
    second = window(first, revision, (PEERS[1],), frozenset(PEERS[:2]))
    again = second.plan.lease_of(PEERS[1])
    assert gone.peer == PEERS[0]
    assert again is not None
    assert set(gone.reserved) <= set(again.reserved)
    assert {entry.times for entry in second.in_hand} == {0}


def test_only_as_much_is_reserved_as_leaves_the_next_seats_to_those_who_wait() -> None:
    revision = ahead(10_000, lease_shards=1, max_roster=4)
    first = started(revision, 4)
    crowded = window(first, revision, PEERS[:6], frozenset(PEERS))
    assert {lease.peer for lease in crowded.plan.roster} == set(PEERS[:4])
    staying = {lease.peer for lease in crowded.plan.roster if lease.reserved}
    assert len(staying) == 2
    following = window(crowded, revision, PEERS[:6], frozenset(PEERS))
    assert {lease.peer for lease in following.plan.roster} == staying | set(PEERS[4:6])
    assert following.returned == ()


def test_where_all_seats_are_waited_for_nothing_is_reserved() -> None:
    revision = ahead(10_000, lease_shards=1, max_roster=2)
    crowded = window(started(revision), revision, PEERS, frozenset(PEERS[:2]))
    assert all(not lease.reserved for lease in crowded.plan.roster)
    following = window(crowded, revision, PEERS, frozenset(PEERS[:2]))
    assert {lease.peer for lease in following.plan.roster}.isdisjoint(PEERS[:2])


def test_a_lease_that_nobody_heard_of_may_be_late_for_one_window() -> None:
    revision = ahead(lease_shards=2)
    first = started(revision)
    slow = first.plan.roster[0]
    second = window(
        first, revision, PEERS[:2], frozenset({PEERS[1]}), waiting=frozenset({slow.peer})
    )
    assert second.late is not None
    assert second.late.plan.lease_of(slow.peer) == replace(slow, reserved=())
    assert not set(slow.shards) & {shard for lease in second.plan.roster for shard in lease.shards}
    third = window(second, revision, PEERS[:2], frozenset(PEERS[:2]))
    assert third.late is None
    dealt = {shard for lease in third.plan.roster for shard in (*lease.shards, *lease.reserved)}
    assert set(slow.shards) <= dealt | {entry.shard for entry in third.returned}
    in_time = window(second, revision, PEERS[:2], frozenset(PEERS[:2]), late=frozenset({slow.peer}))
    assert not set(slow.shards) & set(shards_of(in_time))


def test_at_the_end_of_an_epoch_a_late_lease_is_not_waited_for() -> None:
    revision = ahead(40, lease_shards=2)
    first = started(revision)
    second = window(first, revision, PEERS[:2], NOBODY, waiting=frozenset(PEERS[:2]))
    assert second.plan.state is PlanState.RUNNING
    assert second.progress.epoch == 0
    assert sorted(shards_of(second)) == [0, 1, 2, 3]


def test_without_lookahead_nothing_is_reserved() -> None:
    state = deal(GENESIS.state, small(lease_shards=2), table(1, PEERS[:2]))
    assert all(not lease.reserved for lease in state.plan.roster)
