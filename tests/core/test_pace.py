"""Leases that follow what trainers say of their pace, in a small model of windows: their durations and their end."""

from dataclasses import replace
from random import Random

import pytest

from p2pd.core.decision import Standing, State
from p2pd.core.ids import PeerId, digest
from p2pd.core.pace import UNKNOWN, Paces, roughly
from p2pd.core.standing import Conduct, moved, newcomer
from p2pd.core.window import SOFT_CLOSE_PERCENT
from tests.core.builders import GENESIS, SETTING

SCHEDULE = replace(SETTING.revision.schedule, lease_shards=8, max_lease_shards=64)
PEERS = [PeerId(digest("peer", bytes([n]))) for n in range(10)]
DEADLINE_S, DECIDING_S = 120.0, 2.0
WINDOWS, WARM_UP = 150, 30


class Fleet:
    """Trainers of some pace, in seconds for a microshard; each lease takes some time besides."""

    def __init__(self, paces_s: list[float], *, say: bool, besides_s: float = 0.0) -> None:
        self.paces_s = dict(zip(PEERS, paces_s, strict=False))
        self.say = say
        self.besides_s = besides_s
        self.state = GENESIS.state
        self.dice = Random(0)
        self.missed = 0
        self.delivered = 0
        self.spent_s = 0.0

    def budget(self, peer: PeerId) -> int:
        rows = (row for row in self.state.standing if row.peer == peer)
        return next(rows, newcomer(peer, SCHEDULE)).budget_shards

    def run(self) -> "Fleet":
        for number in range(WINDOWS):
            if number == WARM_UP:
                self.missed, self.delivered, self.spent_s = 0, 0, 0.0
            self.window(number)
        return self

    def window(self, number: int) -> None:
        took_s = {
            peer: (self.besides_s + self.budget(peer) * pace_s) * self.dice.lognormvariate(0, 0.1)
            for peer, pace_s in self.paces_s.items()
        }
        closed_s = self.closes_s(took_s)
        ready = {peer for peer in took_s if took_s[peer] <= closed_s}
        self.spent_s += closed_s + DECIDING_S
        self.delivered += sum(self.budget(peer) for peer in ready)
        self.missed += len(took_s) - len(ready)
        conduct = {p: Conduct.DELIVERED if p in ready else Conduct.MISSED for p in took_s}
        said = {peer: round(took_s[peer] * 1e6) // self.budget(peer) for peer in ready}
        paces = Paces(said, frozenset(took_s)) if self.say else UNKNOWN
        rows = moved(self.state, conduct, SCHEDULE, number, paces)
        self.state = replace(self.state, standing=rows)

    def closes_s(self, took_s: dict[PeerId, float]) -> float:
        total, done = sum(map(self.budget, took_s)), 0
        ends_s = [DEADLINE_S, max(took_s.values())]
        for peer in sorted(took_s, key=took_s.__getitem__):
            done += self.budget(peer)
            if done * 100 >= total * SOFT_CLOSE_PERCENT:
                return min(*ends_s, 1.5 * took_s[peer])
        return min(ends_s)

    @property
    def shards_s(self) -> float:
        return self.delivered / self.spent_s


@pytest.mark.parametrize(
    ("paces_s", "more"),
    [
        ([0.25, 0.25, 0.5, 0.5, 1.0, 1.0], 1.25),
        ([0.25, 0.25, 0.25, 0.5, 0.5, 0.5], 1.15),
        ([0.25] * 5 + [2.5], 1.05),
        ([0.3] * 6 + [0.9] * 4, 1.5),
        ([0.5] * 6, 0.98),
        ([0.25, 1.0, 1.0, 1.0, 1.0, 1.0], 0.98),
    ],
)
def test_trainers_of_mixed_pace_deliver_more_where_their_pace_is_known(
    paces_s: list[float], more: float
) -> None:
    knowing, guessing = Fleet(paces_s, say=True).run(), Fleet(paces_s, say=False).run()
    assert knowing.shards_s > more * guessing.shards_s
    assert knowing.missed <= guessing.missed + WINDOWS * len(paces_s) // 50


def test_the_slow_have_leases_as_much_shorter_as_they_are_slower() -> None:
    fleet = Fleet([0.25, 0.25, 0.25, 0.5, 1.0], say=True).run()
    fast, _, _, half, quarter = (fleet.budget(peer) for peer in PEERS[:5])
    assert fast > 50
    assert 28 <= half <= 42
    assert 13 <= quarter <= 22


def test_who_has_missed_a_lease_comes_to_long_ones_again_though_short_ones_look_slow() -> None:
    fleet = Fleet([0.1] * 6, say=True, besides_s=5.0).run()
    short = {row.peer: replace(row, budget_shards=1) for row in fleet.state.standing[:2]}
    rows = tuple(short.get(row.peer, row) for row in fleet.state.standing)
    fleet.state = replace(fleet.state, standing=rows)
    for number in range(40):
        fleet.window(WINDOWS + number)
    assert {fleet.budget(peer) for peer in short} == {SCHEDULE.max_lease_shards}


def rows_after(said: dict[PeerId, int], state: State = GENESIS.state) -> dict[PeerId, Standing]:
    conduct = dict.fromkeys(said, Conduct.DELIVERED)
    rows = moved(state, conduct, SCHEDULE, 1, Paces(said, frozenset(said)))
    return {row.peer: row for row in rows}


def test_a_minority_that_claims_to_be_fast_shortens_nobodys_lease() -> None:
    honest = dict.fromkeys(PEERS[:3], 1_000_000)
    liars = dict.fromkeys(PEERS[3:5], 1)
    alone, among = rows_after(honest), rows_after({**honest, **liars})
    assert {peer: among[peer] for peer in honest} == alone
    assert among[PEERS[3]].budget_shards <= SCHEDULE.lease_shards * 5 // 4


def test_who_claims_to_be_slow_has_a_short_lease() -> None:
    said = {**dict.fromkeys(PEERS[:3], 1000), PEERS[3]: 2**40}
    assert rows_after(said)[PEERS[3]].budget_shards == 1


def test_a_pace_is_smoothed_and_one_that_is_not_said_stays() -> None:
    first = rows_after({PEERS[0]: 1000})
    assert first[PEERS[0]].shard_us == 1000
    state = replace(GENESIS.state, standing=tuple(first.values()))
    assert rows_after({PEERS[0]: 2000}, state)[PEERS[0]].shard_us == 1250
    conduct = {PEERS[0]: Conduct.MISSED}
    (row,) = moved(state, conduct, SCHEDULE, 2, Paces({}, frozenset(conduct)))
    assert row.shard_us == 1000


@pytest.mark.parametrize(
    ("typical_us", "slower_us", "shards"),
    [(100_000, 125_000, 10), (100_000, 126_000, 9), (1000, 21_000, 10), (1000, 21_100, 1)],
)
def test_who_is_hardly_slower_keeps_its_lease(typical_us: int, slower_us: int, shards: int) -> None:
    schedule = replace(SCHEDULE, lease_shards=8, max_lease_shards=10)
    conduct = dict.fromkeys(PEERS[:3], Conduct.DELIVERED)
    paces = Paces({**dict.fromkeys(PEERS[:2], typical_us), PEERS[2]: slower_us}, frozenset(conduct))
    rows = {row.peer: row for row in moved(GENESIS.state, conduct, schedule, 1, paces)}
    assert rows[PEERS[0]].budget_shards == 10
    assert rows[PEERS[2]].budget_shards == shards


def test_what_is_said_of_a_pace_is_rounded_to_an_eighth() -> None:
    assert [roughly(n) for n in (1, 7, 9, 15, 4480, 4483)] == [1, 7, 10, 16, 4096, 4096]
    assert all(abs(roughly(n) - n) * 8 <= n for n in range(1, 5000))
