"""Peers that talk to a node as its neighbours do, all in one process, until it is killed. Seconds.

python -m tests.faults.stated.talkers PEERS ADDRESS NETWORK TERM EXPERIMENT REVISION HEIGHT GENESIS_DECISION
"""

import sys

import trio

from p2pd.core.ids import DecisionId
from p2pd.core.talk import GetPeers, Inventory, Tip, dump_talk
from tests.hostile.attack import Target
from tests.hostile.rogue import linked

BEAT_S = 0.5


async def talk(target: Target, name: str, genesis: DecisionId) -> None:
    heartbeat = (
        dump_talk(Tip(target.revision, 0, genesis)),
        dump_talk(Inventory(target.revision, target.height, ())),
    )
    while True:
        async with linked(target.address, target.network, name, "viewer") as peer:
            while peer.ended is None:
                await peer.say(*heartbeat)
                await peer.ask(dump_talk(GetPeers(8)))
                await trio.sleep(BEAT_S)


async def crowd(peers: int, target: Target, genesis: DecisionId) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(peers):
            nursery.start_soon(talk, target, f"talker {number}", genesis)


if __name__ == "__main__":
    *words, decision = sys.argv[2:]
    trio.run(crowd, int(sys.argv[1]), Target(words), DecisionId(bytes.fromhex(decision)))
