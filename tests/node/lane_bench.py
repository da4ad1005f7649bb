"""A lane with some decisions, what may be said in it, and a peer that lies about its height. Units: seconds."""

from dataclasses import dataclass
from typing import Any

import trio

from p2pd.core.decision import Decision
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.talk import Tip, dump_talk
from p2pd.ports import Link
from tests.core.builders import (
    GENESIS,
    SETTING,
    TRAINERS,
    VALIDATORS,
    all_present,
    choices,
    follow,
    record,
    running,
    update,
)
from tests.node.node_bench import Bench, Running

FIRST = running(trainers=2, reducers=1)
MINE = update(FIRST, TRAINERS[0])
SECOND = follow(FIRST, choices(FIRST, [MINE], all_present(FIRST, 2, 1)))
HERE = SETTING.revision.id


@dataclass
class Liar:
    """Port LinkHandler of a peer that says it is far ahead, and answers every request alike."""

    data: bytes
    asked: int = 0

    def connected(self, link: Link) -> None: ...

    def disconnected(self, link: Link, why: str) -> None: ...

    def received(self, peer: Any, message: bytes) -> None: ...

    async def answer(self, peer: Any, request: bytes) -> bytes:
        self.asked += 1
        if not self.data:
            await trio.sleep_forever()
        return self.data


async def with_chain(bench: Bench, name: str, *decisions: Decision, who: int = 0) -> Running:
    one = await bench.start(name, VALIDATORS[who])
    for decision in decisions:
        await one.lane.adopt(record(decision))
    return one


async def meet_liar(bench: Bench, liar: Liar, other: Running, height: int = 2**40) -> Any:
    hello = Hello(PROTOCOL_VERSION, SETTING.genesis.network, ("validator",), "", "test")
    transport = bench.network.join("liar", TRAINERS[5].peer, hello)
    bench.nursery.start_soon(transport.run, liar)
    await trio.sleep(0.1)
    await transport.connect(other.node.transport.address, None)
    transport.send(other.node.transport.peer, dump_talk(Tip(HERE, height, GENESIS.id)))
    await trio.sleep(0.1)
    return transport
