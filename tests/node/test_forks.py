"""Nodes that only follow, and meet a second certified decision of one height."""

from dataclasses import dataclass, replace

import pytest
import trio

from p2pd.core.decision import Decision
from p2pd.core.encoding import encode
from p2pd.core.forks import fork_of
from p2pd.core.ids import DecisionId, PeerId, short
from p2pd.core.talk import Records
from p2pd.errors import StoreError
from p2pd.node.catch_up import LEAP_HEIGHTS
from p2pd.node.chronicle import place
from p2pd.ports import Table, Write
from p2pd.sim.store import MemoryLedger
from p2pd.wire.records import dump_record
from tests.core.builders import (
    SETTING,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    record,
    running,
    update,
)
from tests.node.lane_bench import HERE, Liar, meet_liar, with_chain
from tests.node.node_bench import Bench, Running, on_bench


def chain(trainers: int, length: int) -> list[Decision]:
    """Heights 1 and up; those of other numbers of trainers part at height 1."""
    decisions = [running(trainers)]
    while len(decisions) < length:
        last = decisions[-1]
        leased = [one for one in TRAINERS if last.state.plan.lease_of(one.peer)]
        cohort = [update(last, one) for one in leased]
        decisions.append(follow(last, choices(last, cohort, all_present(last, trainers))))
    return decisions


LONG = LEAP_HEIGHTS + 3
ONE, OTHER = chain(2, LONG + 1), chain(3, LONG)


@dataclass(frozen=True)
class Blind:
    """Port Watch of a node without this defence."""

    def differs(self, height: int, decision: DecisionId) -> bool:
        return False

    async def compare(self, peer: PeerId, top: int) -> None: ...

    async def look_back(self, peer: PeerId, height: int) -> None: ...


async def stops(
    bench: Bench, mine: list[Decision], theirs: list[Decision], later: Decision
) -> Running:
    """A viewer that follows the first chain, and meets the second."""
    first = await with_chain(bench, "first", *mine, who=0)
    viewer = await bench.start("viewer", STRANGER, "viewer")
    await bench.link(viewer, first)
    await trio.sleep(5.0)
    assert viewer.lane.decision.id == mine[-1].id
    second = await with_chain(bench, "second", *theirs, who=1)
    await bench.link(viewer, second)
    await trio.sleep(5.0)
    fork = viewer.lane.forks.fork
    assert fork is not None
    assert {fork.first.value, fork.second.value} == {
        mine[fork.height - 1].id,
        theirs[fork.height - 1].id,
    }
    first.lane.forks.fork = None  # as if it had not met the other
    await first.lane.adopt(record(later))
    await trio.sleep(5.0)
    assert viewer.lane.decision.id == mine[-1].id
    return viewer


@pytest.mark.parametrize(
    ("mine", "theirs"), [(1, 1), (2, 1), (1, 3), (4, 4), (2, LONG), (LONG, LONG)]
)
def test_i01_a_follower_stops_at_two_certified_decisions_and_says_so(
    mine: int, theirs: int
) -> None:
    async def main(bench: Bench) -> None:
        viewer = await stops(bench, ONE[:mine], OTHER[:theirs], ONE[mine])
        trouble = viewer.lane.forks.trouble()
        assert trouble is not None
        assert "two certified decisions" in trouble
        assert all(short(one.peer) in trouble for one in VALIDATORS[:3])

    on_bench(main)


def test_i01_a_fork_is_kept_over_a_restart() -> None:
    async def main(bench: Bench) -> None:
        viewer = await stops(bench, ONE[:2], OTHER[:2], ONE[2])
        viewer.life.cancel()
        await trio.sleep(1.0)
        again = await bench.start("again", STRANGER, "viewer", ledger=viewer.ledger)
        assert again.lane.forks.fork == viewer.lane.forks.fork
        old = await with_chain(bench, "old", *ONE[:4], who=2)
        await bench.link(again, old)
        await trio.sleep(5.0)
        assert again.lane.decision.id == ONE[1].id
        assert again.role.events == []

    on_bench(main)


def test_i01_without_the_comparison_two_followers_go_on_with_two_heads() -> None:
    async def main(bench: Bench) -> None:
        viewers = []
        for who, decisions in enumerate((ONE, OTHER)):
            node = await with_chain(bench, f"side {who}", *decisions[:2], who=who)
            viewer = await bench.start(f"viewer {who}", TRAINERS[who], "viewer", watch=Blind())
            await bench.link(viewer, node)
            await trio.sleep(5.0)
            viewers.append(viewer)
        await bench.link(*viewers)
        await trio.sleep(5.0)
        for viewer, decisions in zip(viewers, (ONE, OTHER), strict=True):
            await viewer.lane.adopt(record(decisions[2]))
            assert viewer.lane.decision.id == decisions[2].id
            assert viewer.lane.forks.fork is None

    on_bench(main)


def test_i03_whoever_only_says_that_it_decided_otherwise_stops_nobody() -> None:
    async def main(bench: Bench) -> None:
        old = await with_chain(bench, "old", *ONE[:2])
        few = record(OTHER[0]).certificate
        assert few is not None
        few = replace(few, precommits=few.precommits[:2])
        lies = replace(record(OTHER[0]), certificate=few)
        liar = Liar(encode(Records((dump_record(lies),))))
        transport = await meet_liar(bench, liar, old, height=1)
        assert liar.asked == 1
        assert transport.links() == ()
        assert old.lane.forks.fork is None
        await old.lane.adopt(record(ONE[2]))
        assert old.lane.decision.id == ONE[2].id

    on_bench(main)


def test_a_damaged_fork_is_named() -> None:
    async def main(bench: Bench) -> None:
        fork = fork_of(SETTING, record(ONE[0]), record(OTHER[0]))
        ledger = MemoryLedger()
        await ledger.commit([Write(Table.FORKS, place(HERE, 1), encode(fork)[:-1])])
        one = await bench.start("one", STRANGER, ledger=MemoryLedger())
        one.lane.chronicle._ledger = ledger
        with pytest.raises(StoreError, match="a stored fork is damaged"):
            one.lane.chronicle.fork()

    on_bench(main)
