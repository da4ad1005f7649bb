"""Nodes on a network in memory that only serve artifacts and fetch them."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, manifest_of
from p2pd.core.encoding import encode
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import ArtifactId, NetworkId, PeerId
from p2pd.core.talk import GetChunk, GetHeld, GetManifest, load_talk
from p2pd.errors import RemoteError
from p2pd.node.download import TransferSettings
from p2pd.node.transfer import Transfer
from p2pd.node.wanted import Wanted
from p2pd.ports import Link
from p2pd.sim.links import LinkFaults
from p2pd.sim.network import MemoryNetwork, MemoryTransport
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryBlobs

HELLO = Hello(PROTOCOL_VERSION, NetworkId(bytes(32)), ("trainer",), "", "test")
SCHEMA = bytes(32)
DATA = Random(0).randbytes(8 * CHUNK_BYTES + 5)
MANIFEST = manifest_of(ArtifactKind.HEAD, SCHEMA, DATA)
WANTED = Wanted(MANIFEST.id, ArtifactKind.HEAD, SCHEMA, 2**30)
CHUNKS = len(MANIFEST.chunks)


def peer(name: str) -> PeerId:
    return PeerId(name.encode().ljust(32, b"\0"))


@dataclass
class Node:
    """A node that does nothing but serve and fetch; misbehaves in the way that its name says."""

    name: str
    transport: MemoryTransport
    blobs: MemoryBlobs
    transfer: Transfer
    asked: Counter[int] = field(default_factory=Counter)
    """Requests that came in, by chunk; -1 is the manifest."""
    life: trio.CancelScope = field(default_factory=trio.CancelScope)

    def connected(self, link: Link) -> None: ...

    def disconnected(self, link: Link, why: str) -> None: ...

    def received(self, peer: PeerId, message: bytes) -> None: ...

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        if self.name.startswith("mute"):
            await trio.sleep_forever()
        match load_talk(request):
            case GetManifest() as get:
                self.asked[-1] += 1
                if self.name.startswith("impostor"):
                    return encode(manifest_of(ArtifactKind.HEAD, SCHEMA, b"something else"))
                return await self.transfer.serve_manifest(peer, get)
            case GetHeld() as get:
                if self.name.startswith("garbage"):
                    return b"\xff" * 2
                return await self.transfer.serve_held(peer, get)
            case GetChunk() as get:
                self.asked[get.index] += 1
                if self.name.startswith("garbage"):
                    return b"garbage"
                if self.name.startswith("stalling"):
                    await trio.sleep_forever()
                return await self.transfer.serve_chunk(peer, get)
            case _:
                raise RemoteError("not served here")


@dataclass
class Bench:
    network: MemoryNetwork
    nursery: trio.Nursery

    async def start(
        self,
        name: str,
        data: bytes | None = None,
        *,
        blobs: MemoryBlobs | None = None,
        allowed: Callable[[PeerId, ArtifactId], bool] = lambda peer, artifact: True,
        settings: TransferSettings | None = None,
    ) -> Node:
        blobs = MemoryBlobs() if blobs is None else blobs
        if data is not None:
            await blobs.put(ArtifactKind.HEAD, SCHEMA, data)
        transport = self.network.join(name, peer(name), HELLO)
        transfer = Transfer(transport, blobs, Random(name), allowed=allowed, settings=settings)
        node = Node(name, transport, blobs, transfer)

        async def live(*, task_status: trio.TaskStatus[None]) -> None:
            with node.life:
                await transport.run(node, task_status=task_status)

        await self.nursery.start(live)
        return node

    async def link(self, node: Node, others: list[Node]) -> list[PeerId]:
        for other in others:
            await node.transport.connect(other.transport.address, other.transport.peer)
        return [other.transport.peer for other in others]


def run(
    scenario: Callable[[Bench], Awaitable[None]], *, faults: LinkFaults | None = None, seed: int = 0
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await scenario(Bench(MemoryNetwork(seed, faults), nursery))
            nursery.cancel_scope.cancel()

    assert run_seeded(seed, main, 3600.0)
