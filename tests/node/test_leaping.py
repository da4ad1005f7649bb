"""Who is far behind leaps to the newest decision, over the heights at which the set stayed the same."""

from functools import cache

import trio

from p2pd.core.decision import Decision
from p2pd.core.encoding import encode
from p2pd.core.talk import Records
from p2pd.node.catch_up import LEAP_HEIGHTS
from p2pd.wire.records import dump_record
from tests.core.builders import (
    GENESIS,
    STRANGER,
    TRAINERS,
    VALIDATORS,
    choices,
    follow,
    record,
    two_faces,
)
from tests.node.lane_bench import Liar, meet_liar, with_chain
from tests.node.node_bench import Bench, Running, on_bench


@cache
def long_chain() -> tuple[Decision, ...]:
    """Idle heights by four validators, of whom one is suspended at height 5, and then by three."""
    decisions = [GENESIS]
    while len(decisions) <= LEAP_HEIGHTS + 10:
        previous = decisions[-1]
        evidence = (two_faces(5, VALIDATORS[3]),) if previous.height == 4 else ()
        decisions.append(follow(previous, choices(previous, evidence=evidence)))
    return tuple(decisions[1:])


async def leaping(bench: Bench, *decisions: Decision) -> tuple[Running, Running]:
    old = await with_chain(bench, "old", *decisions)
    new = await bench.start("new", STRANGER, "viewer")
    await bench.link(new, old)
    await trio.sleep(5.0)
    return old, new


def test_i02_who_is_far_behind_learns_where_the_set_changed_and_the_newest_decision() -> None:
    chain = long_chain()

    async def main(bench: Bench) -> None:
        old, new = await leaping(bench, *chain)
        assert [one.height for one in new.role.adopted] == [5, chain[-1].height]
        assert new.lane.decision.id == chain[-1].id
        # From there on, one after the other, and for others as well.
        following = follow(chain[-1], choices(chain[-1]))
        await old.lane.adopt(record(following))
        third = await bench.start("third", TRAINERS[4], "viewer")
        await bench.link(third, new)
        await trio.sleep(5.0)
        assert new.lane.decision.id == third.lane.decision.id == following.id
        assert [one.height for one in third.role.adopted] == [5, following.height]

    on_bench(main)


def test_who_is_a_little_behind_takes_each_decision() -> None:
    chain = long_chain()[:LEAP_HEIGHTS]

    async def main(bench: Bench) -> None:
        _, new = await leaping(bench, *chain)
        assert [one.height for one in new.role.adopted] == [one.height for one in chain]

    on_bench(main)


def test_a_node_that_leapt_goes_on_from_there_after_a_restart() -> None:
    chain = long_chain()

    async def main(bench: Bench) -> None:
        _, new = await leaping(bench, *chain)
        new.life.cancel()
        await trio.sleep(0.1)
        again = await bench.start("new", STRANGER, "viewer", ledger=new.ledger)
        assert again.lane.decision.id == chain[-1].id
        assert again.lane.chronicle.records_after(0, 2**20) == ()
        assert again.lane.chronicle.records_after(4, 2**20) == (dump_record(record(chain[4])),)

    on_bench(main)


def test_i03_a_leap_to_what_the_known_set_did_not_certify_is_not_made() -> None:
    newest = long_chain()[-1]
    lie = encode(Records((dump_record(record(newest)),)))

    async def main(bench: Bench) -> None:
        new = await bench.start("new", STRANGER, "viewer")
        liar = Liar(lie)  # the set of height 1 never signed that: it changed at height 5
        await meet_liar(bench, liar, new)
        await trio.sleep(5.0)
        assert liar.asked > 0
        assert new.lane.decision.id == GENESIS.id
        assert new.node.transport.links() == ()

    on_bench(main)
