"""Peers that talk to a node as its neighbours do, all in one process, until it is killed. Seconds.

python -m tests.faults.stated.talkers PEERS ADDRESS NETWORK TERM EXPERIMENT REVISION HEIGHT
"""

import sys

import trio

from p2pd.core.ids import DecisionId
from p2pd.core.talk import GetPeers, Inventory, Tip, dump_talk
from tests.hostile.attack import Target
from tests.hostile.rogue import linked

BEAT_S = 0.5


async def talk(target: Target, name: str) -> None:
    heartbeat = (
        dump_talk(Tip(target.revision, 0, DecisionId(bytes(32)))),
        dump_talk(Inventory(target.revision, target.height, ())),
    )
    while True:
        async with linked(target.address, target.network, name, "viewer") as peer:
            while peer.ended is None:
                await peer.say(*heartbeat)
                await peer.ask(dump_talk(GetPeers(8)))
                await trio.sleep(BEAT_S)


async def crowd(peers: int, target: Target) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(peers):
            nursery.start_soon(talk, target, f"talker {number}")


if __name__ == "__main__":
    trio.run(crowd, int(sys.argv[1]), Target(sys.argv[2:]))
