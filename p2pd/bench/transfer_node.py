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
from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import ArtifactId, PeerId
from p2pd.core.talk import GetChunk, dump_talk
from p2pd.daemon.absent import NoMath, NoWorker
from p2pd.errors import StoreError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.keys import Ed25519Signer
from p2pd.io.ledger import SqliteLedger
from p2pd.io.overlay import Identity, LinkCounters, OverlaySettings, QuicTransport
from p2pd.io.overlay.streams import Stream
from p2pd.node.node import Node, Parts
from p2pd.node.plugins import load_role
from p2pd.node.wanted import Wanted

AUTHORITY = Ed25519Signer(sha256(b"p2pd bench").digest())
GENESIS = Genesis("bench", bytes(16), (AUTHORITY.key,), 1, (Seat(AUTHORITY.key, 1),), 1, "open")
SCHEMA = bytes(32)
MAX_BYTES = 2**40
CALL, ECHO, LONG = b"\xff", b"\xfe", b"\xfd"
"""No message or request of a node begins so."""
LONG_BYTES = 2**30
SIP_BYTES_S = 2 * 10**6
CALL_S = 0.1
"""Between two calls on the control lane."""
TELL_S = 1.0
ASKERS = 8
ASKED_PART = 10_000


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
    """Sends some control messages back, and has one answer that is longer than any artifact's chunk."""

    echoed: trio.Event | None = None
    """Set when the call that is under way comes back."""

    def received(self, peer: PeerId, message: bytes) -> None:
        if message == CALL:
            self.transport.send(peer, ECHO)
        elif message == ECHO and self.echoed is not None:
            self.echoed.set()
        else:
            super().received(peer, message)

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        if request == LONG:
            # Pages that are only read and hold nothing but zeros take no memory.
            return bytes(LONG_BYTES)
        return await super().answer(peer, request)


class SippingTransport(QuicTransport):
    """Can read responses as slowly as it likes."""

    async def sip(self, peer: PeerId, request: bytes, mouth: "Mouth") -> None:
        stream = await self._links[peer].open_stream()
        try:
            await stream.send(request)
            while await mouth.take(stream):
                pass
        finally:
            stream.close()


class Mouth:
    """All streams of a slow reader share it: one is read while the others wait."""

    def __init__(self, rate_bytes_s: float) -> None:
        self.read_bytes = 0
        self._rate_bytes_s = rate_bytes_s
        self._turn = trio.Lock()

    async def take(self, stream: Stream) -> bool:
        """False at the end of the stream."""
        async with self._turn:
            count = len(await stream.receive())
            self.read_bytes += count
            await trio.sleep(count / self._rate_bytes_s)
        return count > 0


def make_node(
    directory: Path, datagram_bytes: int, ledger: SqliteLedger
) -> tuple[BenchNode, ChunkTimes]:
    signer = Ed25519Signer(sha256(str(directory).encode()).digest())
    plugin = load_role("viewer")
    settings = OverlaySettings(datagram_bytes=datagram_bytes)
    transport = SippingTransport(
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
    wire: dict[PeerId, int] = {}
    started_s, started_cpu_s = trio.current_time(), time.process_time()

    async def tell_half() -> None:
        await blobs.half.wait()
        tell_parent(half_s=trio.current_time() - started_s)

    async def count() -> None:
        while True:  # a link that ends takes its counter with it
            wire.update({peer: link.received_bytes for peer, link in counters(node).items()})
            await trio.sleep(TELL_S)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tell_half)
        nursery.start_soon(count)
        await node.transfer.fetch(wanted, peers)
        seconds, cpu_s = trio.current_time() - started_s, time.process_time() - started_cpu_s
        wire.update({peer: link.received_bytes for peer, link in counters(node).items()})
        nursery.cancel_scope.cancel()
    tell_parent(
        seconds=seconds,
        cpu_s=cpu_s,
        wire_bytes=sum(wire.values()),
        times_s=[time_s - started_s for time_s in blobs.times_s],
    )


async def sip(node: BenchNode, artifact: str, provider: str) -> None:
    """Reads slowly, on as many streams as there may be, and calls on the control lane all the while."""
    peer = await connect(node, provider)
    name, mouth, round_trips_s = ArtifactId(bytes.fromhex(artifact)), Mouth(SIP_BYTES_S), []
    transport = node.transport
    assert isinstance(transport, SippingTransport)
    tell_parent(linked=True)

    async def read_chunks(index: int) -> None:
        while True:
            await transport.sip(peer, dump_talk(GetChunk(name, index)), mouth)

    async def call() -> None:
        while True:
            called_s = trio.current_time()
            echoed = node.echoed = trio.Event()
            transport.send(peer, CALL)
            await echoed.wait()
            round_trips_s.append(trio.current_time() - called_s)
            await trio.sleep(CALL_S)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.sip, peer, LONG, mouth)
        for _ in range(OverlaySettings().requests_per_peer - 1):
            nursery.start_soon(read_chunks, 0)
        nursery.start_soon(call)
        while True:
            await trio.sleep(TELL_S)
            tell_parent(round_trips_s=round_trips_s, read_bytes=mouth.read_bytes)
            round_trips_s.clear()


async def ask(node: Node, artifact: str, requests: int, provider: str) -> None:
    peer = await connect(node, provider)
    request = dump_talk(GetChunk(ArtifactId(bytes.fromhex(artifact)), 0))
    tell_parent(linked=True)
    for asked in range(ASKED_PART, requests + 1, ASKED_PART):
        async with trio.open_nursery() as nursery:
            for _ in range(ASKERS):
                nursery.start_soon(ask_often, node, peer, request)
        tell_parent(asked=asked)


async def ask_often(node: Node, peer: PeerId, request: bytes) -> None:
    for _ in range(ASKED_PART // ASKERS):
        await node.transport.request(peer, request, limit_bytes=CHUNK_BYTES)


def counters(node: Node) -> dict[PeerId, LinkCounters]:
    assert isinstance(node.transport, QuicTransport)
    return node.transport.counters()


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
        elif what == "fetch":
            trio.run(live, node, lambda: fetch(node, blobs, more[0], more[1:]))
        elif what == "sip":
            trio.run(live, node, lambda: sip(node, *more))
        else:
            trio.run(live, node, lambda: ask(node, more[0], int(more[1]), more[2]))


if __name__ == "__main__":
    main(*sys.argv[1:])
