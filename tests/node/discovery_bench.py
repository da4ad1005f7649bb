"""Nodes on a network in memory that only look for each other."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import trio

from p2pd.core.encoding import encode
from p2pd.core.hello import PROTOCOL_VERSION, Hello, PeerRecord
from p2pd.core.ids import NetworkId, PeerId
from p2pd.core.talk import GetPeers, Peers, load_talk
from p2pd.errors import RemoteError
from p2pd.io.keys import Ed25519Signer
from p2pd.node.discovery import Discovery, DiscoverySettings, Seed
from p2pd.node.peer_table import KIND, record_scope
from p2pd.ports import Link
from p2pd.sim.network import MemoryNetwork, MemoryTransport
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryLedger
from p2pd.wire.envelope import dump, seal

NETWORK = NetworkId(b"n" * 32)
HELLO = Hello(PROTOCOL_VERSION, NETWORK, ("trainer",), "", "test")
START_MS = 1_800_000_000_000


def signer_of(name: str) -> Ed25519Signer:
    return Ed25519Signer(name.encode().ljust(32, b"\0"))


def envelope_of(name: str, address: str, issued_at_ms: int) -> bytes:
    record = PeerRecord(address, ("trainer",), issued_at_ms)
    return dump(seal(signer_of(name), KIND, record_scope(NETWORK), record))


@dataclass
class Node:
    name: str
    transport: MemoryTransport
    ledger: MemoryLedger
    discovery: Discovery
    forged: Sequence[bytes] | None = None
    """What it answers in place of the records that it knows."""
    dialled: list[tuple[float, PeerId]] = field(default_factory=list)
    farewells: list[str] = field(default_factory=list)
    skew_ms: int = 0
    """Its wall clock is ahead by so much."""
    life: trio.CancelScope = field(default_factory=trio.CancelScope)

    @property
    def peer(self) -> PeerId:
        return self.transport.peer

    def connected(self, link: Link) -> None:
        if link.dialled:
            self.dialled.append((trio.current_time(), link.peer))
        self.discovery.connected(link)

    def disconnected(self, link: Link, why: str) -> None:
        self.farewells.append(why)
        self.discovery.disconnected(link)

    def received(self, peer: PeerId, message: bytes) -> None: ...

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        asked = load_talk(request)
        if not isinstance(asked, GetPeers):
            raise RemoteError("only peers are known here")
        if self.forged is not None:
            return encode(Peers(START_MS, tuple(self.forged)))
        return self.discovery.serve_peers(peer, asked)

    def linked(self) -> set[PeerId]:
        return {link.peer for link in self.transport.links()}


@dataclass
class Bench:
    network: MemoryNetwork
    nursery: trio.Nursery
    seeds: tuple[Seed, ...] = (Seed("10.0.0.1:7000"),)
    """The first node that starts is the seed."""
    mesh: int = 32

    async def start(
        self,
        name: str,
        *,
        ledger: MemoryLedger | None = None,
        address: str | None = None,
        skew_ms: int = 0,
        key: str = "",
    ) -> Node:
        ledger = MemoryLedger() if ledger is None else ledger
        signer = signer_of(key or name)
        transport = self.network.join(name, signer.peer, HELLO, address=address)
        settings = DiscoverySettings(
            network=NETWORK, roles=("trainer",), seeds=self.seeds, mesh=self.mesh
        )
        discovery = Discovery(
            transport,
            ledger,
            signer,
            Random(name),
            lambda: START_MS + node.skew_ms + int(trio.current_time() * 1000),
            settings,
        )
        node = Node(name, transport, ledger, discovery, skew_ms=skew_ms)

        async def live(*, task_status: trio.TaskStatus[None]) -> None:
            with node.life:
                async with trio.open_nursery() as nursery:
                    await nursery.start(transport.run, node)
                    nursery.start_soon(discovery.run)
                    task_status.started()

        await self.nursery.start(live)
        return node

    async def fleet(self, count: int) -> list[Node]:
        return [await self.start(f"node{n}") for n in range(count)]


def run(scenario: Callable[[Bench], Awaitable[None]], *, seed: int = 0) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await scenario(Bench(MemoryNetwork(seed), nursery))
            nursery.cancel_scope.cancel()

    assert run_seeded(seed, main, 50_000.0)
