"""The authority of a simulated network, and who hands its records to nodes until decisions have taken them.

Seconds are virtual. It is a peer without a role, and brings what it signed to one node after the other: these tell all.
"""

from collections.abc import Callable, Sequence
from random import Random

import trio

from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.governance import (
    ActionKind,
    Extend,
    GovernanceRecord,
    LogPlace,
    SignedGovernance,
    beginning,
)
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import PeerId, RevisionId, peer_id
from p2pd.core.talk import GetGovernance, GovernanceTip, Records, dump_talk, load_talk
from p2pd.errors import RemoteError, UnreachableError
from p2pd.ports import Link
from p2pd.sim.network import MemoryNetwork, MemoryTransport
from p2pd.sim.signing import SimSigner
from p2pd.wire.records import seal_governance

NAME = "authority"
FIRST_S = (3.0, 60.0)
"""When it hands over its first record: before the run has come to its end, or after."""
AGAIN_S = 5.0


def extensions(
    seed: int, genesis: Genesis, ends: Sequence[tuple[RevisionId, int]]
) -> tuple[SignedGovernance, ...]:
    """The log of a network, one record for each revision: it ends after so many heads."""
    found: list[SignedGovernance] = []
    place = beginning(genesis.network)
    for revision, heads in ends:
        action = Extend(revision, heads, None)
        record = GovernanceRecord(
            genesis.network, place.number + 1, place.record, ActionKind.EXTEND, action
        )
        found.append(seal_governance(record, (SimSigner(seed, "authority"),)))
        place = found[-1].place
    return tuple(found)


class Authority:
    """Implements LinkHandler: answers with its records, and knows nothing else."""

    def __init__(
        self, seed: int, network: MemoryNetwork, genesis: Genesis, log: Sequence[SignedGovernance]
    ) -> None:
        self._dice = Random(f"{seed}/authority")
        self._log = log
        self._network = network
        self._peer = peer_id(SimSigner(seed, "courier").key)
        self._hello = Hello(PROTOCOL_VERSION, genesis.network, (), "", "sim")
        self._transport: MemoryTransport

    def connected(self, link: Link) -> None:
        tip = self._place()
        self._transport.send(link.peer, dump_talk(GovernanceTip(tip.number, tip.record)))

    def _place(self) -> LogPlace:
        return self._log[-1].place

    def disconnected(self, link: Link, why: str) -> None: ...

    def received(self, peer: PeerId, message: bytes) -> None: ...

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        talk = load_talk(request)
        if not isinstance(talk, GetGovernance):
            raise RemoteError("this peer keeps the governance log only")
        return encode(Records(tuple(map(encode, self._log[max(0, talk.after) :]))))

    async def run(self, nodes: Callable[[], Sequence[str]], taken: Callable[[], bool]) -> None:
        """nodes: addresses of those that may be asked; taken: whether nothing is left to do."""
        await trio.sleep(self._dice.uniform(*FIRST_S))
        self._transport = self._network.join(NAME, self._peer, self._hello)
        async with trio.open_nursery() as nursery:
            await nursery.start(self._transport.run, self)
            while not taken():
                await self._hand_over(self._dice.choice(nodes()))
                await trio.sleep(AGAIN_S)
            nursery.cancel_scope.cancel()

    async def _hand_over(self, address: str) -> None:
        try:
            link = await self._transport.connect(address, None)
        except (UnreachableError, RemoteError):
            return  # it is dead, or busy: another one, next time
        self.connected(link)
