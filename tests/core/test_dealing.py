from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from p2pd.core.dealing import (
    MAX_DEALT_IN_VAIN,
    REDUCERS,
    Table,
    _shares,
    deal,
    take_back,
)
from p2pd.core.decision import Plan, PlanState, Returned, Standby, State
from p2pd.core.encoding import encode
from p2pd.core.governance import Ends
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, digest
from p2pd.core.revision import DataSpec, Revision
from p2pd.core.standing import newcomer
from tests.core.builders import GENESIS, HEAD, SETTING

PEERS = tuple(sorted(PeerId(digest("peer", bytes([n]))) for n in range(7)))
NOBODY: frozenset[PeerId] = frozenset()


def small(samples: int = 227, **schedule: Any) -> Revision:
    """Of 23 microshards, the last one of 7 samples, unless said otherwise."""
    plain = SETTING.revision
    return replace(
        plain,
        data=DataSpec("indexed", samples, 10),
        schedule=replace(plain.schedule, **schedule),
    )


def table(height: int, present: tuple[PeerId, ...], reducers: tuple[PeerId, ...] = ()) -> Table:
    before = DecisionId(digest("decision", height.to_bytes(8)))
    return Table(height, ArtifactId(HEAD), before, present, reducers)


def dealt(revision: Revision, present: tuple[PeerId, ...], height: int = 1) -> State:
    return deal(begun(revision), revision, table(height, present))


def begun(revision: Revision) -> State:
    """Of a chain at its beginning, with the ends of its revision in force."""
    ends = Ends(revision.schedule.end_heads, revision.schedule.end_epochs)
    governed = replace(GENESIS.state.governed, ends=ends)
    return replace(GENESIS.state, governed=governed)


def next_window(
    state: State,
    revision: Revision,
    delivered: frozenset[PeerId],
    present: tuple[PeerId, ...] = PEERS[:3],
    *,
    in_vain: bool = True,
) -> State:
    after = take_back(state, delivered, in_vain=in_vain)
    return deal(after, revision, table(state.plan.height + 1, present))


def leased(state: State) -> list[int]:
    return [shard for lease in state.plan.roster for shard in lease.shards]


class Dealing(RuleBasedStateMachine):
    """Windows of any kind, one after another; a plain count of what was delivered is kept beside them."""

    @initialize(
        lease=st.integers(1, 4), roster=st.integers(1, 5), samples=st.sampled_from([1, 57, 227])
    )
    def begin(self, lease: int, roster: int, samples: int) -> None:
        shard_samples = min(10, samples)
        plain = small(lease_shards=lease, max_roster=roster)
        self.revision = replace(plain, data=DataSpec("indexed", samples, shard_samples))
        self.state = dealt(self.revision, PEERS[:2])
        self.counted: set[int] = set()
        self.skipped: set[int] = set()
        self.in_vain: dict[int, int] = {}

    @rule(delivered=st.sets(st.sampled_from(PEERS)), present=st.sets(st.sampled_from(PEERS)))
    def window(self, delivered: set[PeerId], present: set[PeerId]) -> None:
        for lease in self.state.plan.roster:
            for shard in lease.shards:
                if lease.peer in delivered:
                    assert shard not in self.counted
                    self.counted.add(shard)
                else:
                    self.in_vain[shard] = self.in_vain.get(shard, 0) + 1
        self.step(frozenset(delivered), present, in_vain=True)

    @rule(present=st.sets(st.sampled_from(PEERS)))
    def undecided(self, present: set[PeerId]) -> None:
        self.step(NOBODY, present, in_vain=False)

    def step(self, delivered: frozenset[PeerId], present: set[PeerId], *, in_vain: bool) -> None:
        before = self.state
        after = take_back(before, delivered, in_vain=in_vain)
        self.state = deal(
            after, self.revision, table(before.plan.height + 1, tuple(sorted(present)))
        )
        assert not self.skipped & set(self.state.skipped)
        self.skipped |= set(self.state.skipped)
        if self.state.progress.epoch != before.progress.epoch:
            everything = set(range(self.revision.data.shards))
            # Each was counted, or was listed: nothing is forgotten and nothing is both.
            assert self.counted | self.skipped == everything
            assert not self.counted & self.skipped
            self.counted, self.skipped, self.in_vain = set(), set(), {}
        assert self.state.given_up == len(self.skipped)

    @invariant()
    def leases_are_disjoint_and_in_order(self) -> None:
        shards = leased(self.state)
        assert len(set(shards)) == len(shards)
        roster = self.state.plan.roster
        assert [lease.peer for lease in roster] == sorted(lease.peer for lease in roster)
        assert len(roster) <= self.revision.schedule.max_roster
        for lease in roster:
            assert list(lease.shards) == sorted(lease.shards)
            assert lease.samples == sum(map(self.revision.data.shard_size, lease.shards)) > 0
        assert (self.state.plan.state is PlanState.RUNNING) == bool(roster)

    @invariant()
    def every_microshard_is_in_one_place(self) -> None:
        returned = [entry.shard for entry in self.state.returned]
        places = [*leased(self.state), *returned, *self.skipped, *self.counted]
        assert len(set(places)) == len(places) == self.state.progress.cursor
        assert returned == sorted(returned)

    @invariant()
    def vain_deals_are_counted(self) -> None:
        times = {e.shard: e.times for e in (*self.state.returned, *self.state.in_hand)}
        for shard, count in self.in_vain.items():
            if shard in self.skipped:
                assert count == MAX_DEALT_IN_VAIN
            elif shard not in self.counted:
                assert times[shard] == count < MAX_DEALT_IN_VAIN


TestI07OverAnyHistoryEachMicroshardIsCountedAtMostOnce = Dealing.TestCase
TestI07OverAnyHistoryEachMicroshardIsCountedAtMostOnce.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None
)


def test_i07_an_epoch_ends_once_all_of_it_was_delivered() -> None:
    revision = small(lease_shards=5)
    state, seen = dealt(revision, PEERS[:2]), set[int]()
    while state.progress.epoch == 0:
        seen.update(leased(state))
        state = next_window(state, revision, frozenset(PEERS), PEERS[:2])
    assert seen == set(range(23))
    assert state.plan.height == 4
    assert state.skipped == ()


def test_i07_what_a_trainer_did_not_deliver_is_dealt_again_first() -> None:
    revision = small(lease_shards=4)
    state = dealt(revision, PEERS[:2])
    lost = state.plan.lease_of(PEERS[0])
    assert lost is not None
    state = next_window(state, revision, frozenset({PEERS[1]}), PEERS[2:3])
    assert leased(state) == list(lost.shards)
    assert state.in_hand == tuple(Returned(shard, 1) for shard in lost.shards)


def test_i07_a_microshard_is_skipped_after_three_vain_deals_and_said() -> None:
    revision = small(lease_shards=2)
    state = dealt(revision, PEERS[:1])
    doomed = leased(state)
    for _ in range(MAX_DEALT_IN_VAIN - 1):
        state = next_window(state, revision, NOBODY, PEERS[:1])
        assert leased(state) == doomed
        assert state.skipped == ()
    state = next_window(state, revision, NOBODY, PEERS[:1])
    assert state.skipped == tuple(doomed)
    assert not set(doomed) & set(leased(state))
    state = next_window(state, revision, NOBODY, PEERS[:1])
    assert (state.skipped, state.given_up) == ((), len(doomed))


def test_i09_what_an_epoch_gives_up_does_not_pile_up_in_the_state() -> None:
    revision = small(samples=100_000, lease_shards=4, max_roster=5)
    state, sizes, given_up = dealt(revision, PEERS[:5]), [], 0
    for _ in range(90):
        state = next_window(state, revision, NOBODY, PEERS[:5])
        given_up += len(state.skipped)
        sizes.append(len(encode(state)))
    assert state.progress.epoch == 0
    assert state.given_up == given_up == 90 // MAX_DEALT_IN_VAIN * 5 * 4
    assert max(sizes[60:]) <= max(sizes[:30]) + 16


def test_i07_an_undecided_window_deals_again_and_counts_against_nobody() -> None:
    revision = small(lease_shards=2)
    state = dealt(revision, PEERS[:1])
    doomed = leased(state)
    for _ in range(10):
        state = next_window(state, revision, NOBODY, PEERS[:1], in_vain=False)
        assert leased(state) == doomed
    assert state.skipped == ()
    assert {entry.times for entry in state.in_hand} == {0}


def test_i07_without_taking_back_the_work_of_the_dead_would_be_lost() -> None:
    revision = small(lease_shards=4)
    state = dealt(revision, PEERS[:2])
    lost = set(leased(state))
    careless = deal(replace(state, in_hand=()), revision, table(2, PEERS[:2]))
    while careless.progress.epoch == 0:
        assert not lost & set(leased(careless))
        careless = deal(careless, revision, table(careless.plan.height + 1, PEERS[:2]))


def test_each_gets_what_its_record_says() -> None:
    revision = small(lease_shards=2)
    row = replace(newcomer(PEERS[0], revision.schedule), budget_shards=7)
    state = deal(replace(GENESIS.state, standing=(row,)), revision, table(1, PEERS[:2]))
    assert [len(lease.shards) for lease in state.plan.roster] == [7, 2]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 200))
def test_what_is_too_little_is_shared_in_proportion(wanted: list[int], available: int) -> None:
    shares = _shares(wanted, available)
    total = sum(wanted)
    assert sum(shares) == min(total, available)
    for want, share in zip(wanted, shares, strict=True):
        assert share <= want
        assert abs(share - min(want, want * available / total)) <= 1


def test_a_short_rest_goes_to_some_and_no_lease_is_empty() -> None:
    state = dealt(small(samples=20, lease_shards=5), PEERS[:3])
    assert [lease.shards for lease in state.plan.roster if not lease.shards] == []
    assert sorted(leased(state)) == [0, 1]


@settings(deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 1), st.integers(0, 2**64 - 1))
def test_each_of_more_trainers_than_places_is_seated_within_the_fewest_windows(
    trainers: int, places: int, lookahead: int, seed: int
) -> None:
    revision = small(samples=10**6, max_roster=places, lookahead=lookahead)
    present, state, waits = PEERS[:trainers], GENESIS.state, dict.fromkeys(PEERS[:trainers], 0)
    for height in range(1, 30):
        after = take_back(state, frozenset(PEERS), in_vain=True)
        before = DecisionId(digest("decision", seed.to_bytes(8) + height.to_bytes(8)))
        state = deal(after, revision, replace(table(height, present), before=before))
        seated = {lease.peer for lease in state.plan.roster}
        assert len(seated) == min(places, trainers)
        waits = {peer: 0 if peer in seated else waits[peer] + 1 for peer in present}
        assert max(waits.values()) < -(-trainers // places)
        assert state.standby == tuple(Standby(peer, n) for peer, n in waits.items() if n)


def test_newcomers_do_not_go_before_those_who_wait() -> None:
    revision = small(samples=10**6, max_roster=2)
    state = dealt(revision, PEERS[:4])
    waiting = {entry.peer for entry in state.standby}
    state = next_window(state, revision, frozenset(PEERS), PEERS)
    assert {lease.peer for lease in state.plan.roster} == waiting


def test_by_draw_alone_some_would_wait_for_long() -> None:
    revision = small(samples=10**6, max_roster=2)
    rosters = [
        {lease.peer for lease in dealt(revision, PEERS, height).plan.roster}
        for height in range(1, 60)
    ]
    missed = [[peer not in roster for roster in rosters] for peer in PEERS]
    longest = max(len(run) for row in missed for run in "".join("-x"[m] for m in row).split("-"))
    assert longest > 2 * -(-len(PEERS) // 2)


def test_reducers_are_drawn_anew_for_each_window() -> None:
    drawn = [
        deal(GENESIS.state, small(), table(height, PEERS[:1], PEERS)).plan.reducers
        for height in range(1, 60)
    ]
    assert {len(set(pair)) for pair in drawn} == {REDUCERS}
    assert {peer for pair in drawn for peer in pair} == set(PEERS)


def test_the_seed_of_a_plan_rests_on_an_older_decision_its_height_and_its_revision() -> None:
    one = table(1, PEERS[:1])
    other_revision = replace(small(), name="other")
    plans = [
        deal(GENESIS.state, small(), one).plan,
        deal(GENESIS.state, small(), replace(one, height=2)).plan,
        deal(GENESIS.state, small(), replace(one, before=DecisionId(bytes(32)))).plan,
        deal(GENESIS.state, small(), replace(one, before=None)).plan,
        deal(GENESIS.state, other_revision, one).plan,
    ]
    assert len({plan.seed for plan in plans}) == len(plans)
    later = replace(one, present=PEERS, base=ArtifactId(bytes(32)))
    assert deal(GENESIS.state, small(), later).plan.seed == plans[0].seed


def test_nobody_there_means_an_idle_plan_that_keeps_what_waits() -> None:
    revision = small(lease_shards=4)
    state = dealt(revision, PEERS[:1])
    lost = leased(state)
    state = next_window(state, revision, NOBODY, ())
    assert state.plan == Plan(2, PlanState.IDLE, HEAD, state.plan.seed, (), ())
    assert [entry.shard for entry in state.returned] == lost


@pytest.mark.parametrize(
    ("schedule", "heads", "epoch", "finished"),
    [
        ({}, 10**6, 10**6, False),
        ({"end_heads": 5}, 4, 0, False),
        ({"end_heads": 5}, 5, 0, True),
        ({"end_epochs": 2}, 99, 1, False),
        ({"end_epochs": 2}, 0, 2, True),
    ],
)
def test_a_run_ends_where_its_revision_says(
    schedule: dict[str, int], heads: int, epoch: int, finished: bool
) -> None:
    progress = replace(GENESIS.state.progress, heads=heads, epoch=epoch)
    revision = small(**schedule)
    state = replace(begun(revision), progress=progress)
    state = deal(state, revision, table(1, PEERS[:2]))
    assert (state.plan.state is PlanState.FINISHED) is finished
    assert bool(state.plan.roster) is not finished


def test_the_last_epoch_is_finished_before_the_run_is() -> None:
    revision = small(lease_shards=8, end_epochs=1)
    state, seen = dealt(revision, PEERS[:2]), set[int]()
    while state.plan.state is PlanState.RUNNING:
        seen.update(leased(state))
        state = next_window(state, revision, frozenset(PEERS), PEERS[:2])
    assert state.plan.state is PlanState.FINISHED
    assert seen == set(range(23))
