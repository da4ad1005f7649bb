"""A real node on a real socket with one honest neighbour, for rogues to try. Seconds."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import PeerId
from p2pd.core.votes import Step, Vote
from p2pd.io.keys import Ed25519Signer
from p2pd.io.overlay import Identity, OverlaySettings, QuicTransport
from p2pd.node.lane import Lane
from p2pd.node.node import Node, Parts
from p2pd.sim.scripted import ScriptedMath, ScriptedWorker
from p2pd.sim.store import MemoryBlobs, MemoryLedger
from p2pd.wire.envelope import seal
from tests.core.builders import SETTING, VALIDATORS
from tests.node.node_bench import REVISION, Listener, Plugin

LIMIT_S = 60.0
NETWORK = SETTING.genesis.network
POLL_S = 0.01
MB = 2**20


@dataclass
class Host:
    node: Node
    lane: Lane
    role: Listener
    blobs: MemoryBlobs

    @property
    def address(self) -> str:
        return self.node.transport.address

    def links(self) -> set[PeerId]:
        return {link.peer for link in self.node.transport.links()}


@dataclass
class Bed:
    victim: Host
    neighbour: Host
    rounds: int = field(default=0)

    async def works(self) -> None:
        """What the honest neighbour says still reaches the victim, by the link they had."""
        self.rounds += 1
        content = Vote(Step.PREVOTE, self.rounds, None, -1, ())
        vote = seal(VALIDATORS[1], "vote", SETTING.scope(1), content)
        await self.neighbour.lane.publish(vote)
        await until(lambda: vote in self.victim.role.seen)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - a node tells nobody what it keeps
        await trio.sleep(POLL_S)


def host(signer: Ed25519Signer, settings: OverlaySettings) -> Host:
    plugin, blobs = Plugin(("validator",)), MemoryBlobs()

    def greeting(address: str) -> Hello:
        return Hello(PROTOCOL_VERSION, NETWORK, plugin.offers, address, "test")

    parts = Parts(
        signer=signer,
        transport=QuicTransport(settings, Identity(signer.seed), greeting),
        ledger=MemoryLedger(),
        blobs=blobs,
        math=ScriptedMath(blobs, Random(0)),
        worker=ScriptedWorker(blobs, Random(0)),
        dice=Random(0),
        now_ms=lambda: 1_800_000_000_000 + round(trio.current_time() * 1000),
    )
    node = Node(parts, SETTING.genesis, plugin, ())
    return Host(node, node.add(REVISION), plugin.role, blobs)


@asynccontextmanager
async def made(settings: OverlaySettings) -> AsyncIterator[Bed]:
    victim, neighbour = (host(VALIDATORS[n], settings) for n in range(2))
    async with trio.open_nursery() as nursery:
        for one in (victim, neighbour):
            nursery.start_soon(one.node.run)
        await until(lambda: bool(victim.address and neighbour.address))
        await neighbour.node.transport.connect(victim.address, None)
        yield Bed(victim, neighbour)
        nursery.cancel_scope.cancel()


def on_bed(
    scene: Callable[[Bed], Awaitable[None]], settings: OverlaySettings | None = None
) -> None:
    """Plays a scene; the node must work before and after it."""

    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            async with made(settings or OverlaySettings()) as bed:
                await bed.works()
                await scene(bed)
                await bed.works()

    trio.run(main)


def resident_bytes() -> int:
    """Of this process. Source: proc(5)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
