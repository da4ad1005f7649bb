"""Nodes on a network in memory that write down what their transports call."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import NetworkId, PeerId
from p2pd.errors import RemoteError
from p2pd.ports import Link
from p2pd.sim.links import LinkFaults
from p2pd.sim.network import MemoryNetwork, MemoryTransport
from p2pd.sim.run import run_seeded

HELLO = Hello(PROTOCOL_VERSION, NetworkId(bytes(32)), ("trainer",), "", "test")


def peer(name: str) -> PeerId:
    return PeerId(name.encode().ljust(32, b"\0"))


@dataclass
class Recorder:
    """A node that writes down what its transport calls."""

    log: list[tuple[float, str, PeerId, object]] = field(default_factory=list)

    def note(self, what: str, who: PeerId, detail: object) -> None:
        self.log.append((trio.current_time(), what, who, detail))

    def connected(self, link: Link) -> None:
        self.note("connected", link.peer, link.dialled)

    def disconnected(self, link: Link, why: str) -> None:
        self.note("disconnected", link.peer, why)

    def received(self, peer: PeerId, message: bytes) -> None:
        self.note("received", peer, message)

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        if request == b"never":
            try:
                await trio.sleep_forever()
            finally:
                self.note("abandoned", peer, request)
        if request == b"refuse":
            raise RemoteError("not for you")
        return request.upper()

    def of(self, what: str) -> list[object]:
        return [detail for _, kind, _, detail in self.log if kind == what]


@dataclass
class Node:
    transport: MemoryTransport
    handler: Recorder
    life: trio.CancelScope


@dataclass
class Bench:
    """Nodes that are started one by one, and live until the test ends."""

    network: MemoryNetwork
    nursery: trio.Nursery

    async def start(self, name: str, hello: Hello = HELLO, *, address: str | None = None) -> Node:
        node = Node(
            self.network.join(name, peer(name), hello, address=address),
            Recorder(),
            trio.CancelScope(),
        )

        async def live(*, task_status: trio.TaskStatus[None]) -> None:
            with node.life:
                await node.transport.run(node.handler, task_status=task_status)

        await self.nursery.start(live)
        return node

    async def pair(self) -> tuple[Node, Node]:
        alice, bob = await self.start("alice"), await self.start("bob")
        await alice.transport.connect(bob.transport.address, peer("bob"))
        return alice, bob


def run(
    scenario: Callable[[Bench], Awaitable[None]], *, seed: int = 0, faults: LinkFaults | None = None
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await scenario(Bench(MemoryNetwork(seed, faults), nursery))
            nursery.cancel_scope.cancel()

    assert run_seeded(seed, main, 3600.0)
