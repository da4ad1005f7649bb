"""A node as the daemon makes it, in a process of its own, that serves or fetches for a bench. Seconds, bytes.

python -m p2pd.bench.transfer_node serve DIRECTORY DATAGRAM_BYTES
python -m p2pd.bench.transfer_node fetch DIRECTORY DATAGRAM_BYTES ARTIFACT PEER@ADDRESS...
"""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

import trio

from p2pd.bench.children import tell_parent
from p2pd.config.node import StoreSettings
from p2pd.core.artifact import ArtifactKind
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import ArtifactId, PeerId
from p2pd.daemon.absent import NoMath, NoWorker
from p2pd.errors import StoreError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.keys import Ed25519Signer
from p2pd.io.ledger import SqliteLedger
from p2pd.io.overlay import Identity, OverlaySettings, QuicTransport
from p2pd.node.node import Node, Parts
from p2pd.node.plugins import load_role
from p2pd.node.wanted import Wanted

AUTHORITY = Ed25519Signer(sha256(b"p2pd bench").digest())
GENESIS = Genesis("bench", bytes(16), (AUTHORITY.key,), 1, (Seat(AUTHORITY.key, 1),), 1, "open")
SCHEMA = bytes(32)
MAX_BYTES = 2**40


class ChunkTimes(FileBlobStore):
    """Writes down when each chunk was verified and written."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, StoreSettings(quota_bytes=0), on_damage=_damaged)
        self.times_s: list[float] = []
        self.half = trio.Event()
        """Set when as many chunks are here as are missing."""

    async def write(self, artifact: ArtifactId, index: int, data: bytes) -> None:
        await super().write(artifact, index, data)
        self.times_s.append(trio.current_time())
        if not self.half.is_set() and len(self.missing(artifact)) <= len(self.times_s):
            self.half.set()


def _damaged(artifact: ArtifactId, what: str) -> None:
    raise StoreError(what)


class BenchNode(Node):
    """Sends control messages of its own kind back."""

    echo = b"\xff"
    answer_echo = b"\xfe"

    def received(self, peer: PeerId, message: bytes) -> None:
        if message.startswith(self.echo):
            self.transport.send(peer, self.answer_echo + message[1:])
        else:
            super().received(peer, message)


def make_node(
    directory: Path, datagram_bytes: int, ledger: SqliteLedger
) -> tuple[BenchNode, ChunkTimes]:
    signer = Ed25519Signer(sha256(str(directory).encode()).digest())
    plugin = load_role("viewer")
    settings = OverlaySettings(datagram_bytes=datagram_bytes)
    transport = QuicTransport(
        settings,
        Identity(signer.seed),
        lambda address: Hello(PROTOCOL_VERSION, GENESIS.network, plugin.offers, address, "bench"),
    )
    blobs = ChunkTimes(directory / "blobs")
    parts = Parts(
        signer=signer,
        transport=transport,
        ledger=ledger,
        blobs=blobs,
        math=NoMath(),
        worker=NoWorker(),
        dice=Random(0),
        now_ms=lambda: time.time_ns() // 1_000_000,
    )
    return BenchNode(parts, GENESIS, plugin, ()), blobs


async def serve(node: Node) -> None:
    tell_parent(node=f"{node.transport.peer.hex()}@{node.transport.address}")
    await trio.sleep_forever()


async def fetch(node: Node, blobs: ChunkTimes, artifact: str, providers: Sequence[str]) -> None:
    peers = [await connect(node, provider) for provider in providers]
    wanted = Wanted(ArtifactId(bytes.fromhex(artifact)), ArtifactKind.HEAD, SCHEMA, MAX_BYTES)

    async def tell_half() -> None:
        await blobs.half.wait()
        tell_parent(half=len(blobs.times_s))

    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell_half)
        await node.transfer.fetch(wanted, peers)
    tell_parent(
        seconds=trio.current_time() - started_s,
        received_bytes=node.transfer.received_bytes,
        times_s=[time_s - started_s for time_s in blobs.times_s],
    )


async def connect(node: Node, provider: str) -> PeerId:
    peer, _, address = provider.partition("@")
    link = await node.transport.connect(address, PeerId(bytes.fromhex(peer)))
    return link.peer


async def live(node: Node, act: Callable[[], Awaitable[None]]) -> None:
    """Until act is done and the parent wants no more."""

    async def end() -> None:
        await act()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.run, end)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


def main(what: str, directory: str, datagram_bytes: str, *more: str) -> None:
    place = Path(directory)
    place.mkdir(exist_ok=True)
    with SqliteLedger(place / "ledger.sqlite") as ledger:
        node, blobs = make_node(place, int(datagram_bytes), ledger)
        if what == "serve":
            trio.run(live, node, lambda: serve(node))
        else:
            trio.run(live, node, lambda: fetch(node, blobs, more[0], more[1:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
