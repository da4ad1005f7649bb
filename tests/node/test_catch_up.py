"""When a node asks its neighbours for decisions, and when it does not."""

import pytest
import trio

from p2pd.core.talk import Tip, dump_talk
from p2pd.core.voting.exchange import Inventory
from p2pd.node.catch_up import OWN_S
from tests.core.builders import SETTING, VALIDATORS, choices, follow, record, running
from tests.node.node_bench import Bench, Running, on_bench

FIRST = running(trainers=2)
SECOND = follow(FIRST, choices(FIRST))


async def told(bench: Bench, *, votes: bool) -> tuple[Running, list[int]]:
    """A node at height 1 that hears of a neighbour's height 2, and what that one is asked."""
    one, other = [await bench.start(f"v{n}", VALIDATORS[n]) for n in range(2)]
    for node in (one, other):
        await node.lane.adopt(record(FIRST))
    await bench.link(one, other)
    await trio.sleep(2.0)
    one.role.shows = Inventory((), (), ()) if votes else None
    await other.lane.chronicle.adopt(record(SECOND))  # it holds it, and has not told anybody
    asked: list[int] = []
    serve = other.lane.chronicle.records_after

    def count(height: int, limit_bytes: int) -> tuple[bytes, ...]:
        asked.append(height)
        return serve(height, limit_bytes)

    other.lane.chronicle.records_after = count  # type: ignore[method-assign]
    tip = dump_talk(Tip(SETTING.revision.id, 2, SECOND.id))
    one.node.received(other.node.transport.peer, tip)
    return one, asked


def test_a_voter_whose_own_decision_is_on_the_way_asks_nobody_for_it() -> None:
    async def main(bench: Bench) -> None:
        one, asked = await told(bench, votes=True)
        await trio.sleep(OWN_S / 2)
        await one.lane.adopt(record(SECOND))
        await trio.sleep(5.0)
        assert asked == []

    on_bench(main)


@pytest.mark.parametrize("votes", [True, False])
def test_who_does_not_come_to_it_itself_asks(votes: bool) -> None:
    async def main(bench: Bench) -> None:
        one, asked = await told(bench, votes=votes)
        await trio.sleep(OWN_S + 1.0)
        assert asked == [1]
        assert one.lane.decision.id == SECOND.id

    on_bench(main)
