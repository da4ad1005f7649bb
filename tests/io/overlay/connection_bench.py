"""Two connections that exchange their datagrams in memory. Units: seconds."""

import math
from collections.abc import Awaitable, Callable

import trio
from trio.testing import wait_all_tasks_blocked

from p2pd.core.ids import PeerId
from p2pd.io.overlay import OverlaySettings, congestion
from p2pd.io.overlay._aioquic172 import Quic, QuicLimits, configuration
from p2pd.io.overlay.connection import Connection
from p2pd.io.overlay.identity import certificate
from p2pd.io.overlay.streams import Stream
from p2pd.ports import Link
from tests.io.overlay.bench import identity
from tests.ports.transport_contract import HELLO

ADDRESS = {True: ("192.0.2.1", 1), False: ("192.0.2.2", 2)}
SETTINGS = OverlaySettings(
    datagram_bytes=16_000,
    backlog_bytes=2**20,
    stream_window_bytes=2**19,
    connection_window_bytes=3 * 2**20,
    requests_per_peer=4,
)
MIB = 2**20


class Side:
    """A connection with nothing around it."""

    def __init__(self, *, dialled: bool, other: "Side | None" = None) -> None:
        congestion.register()
        limits = QuicLimits(
            datagram_bytes=SETTINGS.datagram_bytes,
            idle_s=SETTINGS.idle_s,
            streams=SETTINGS.requests_per_peer + 1,
            stream_window_bytes=SETTINGS.stream_window_bytes,
            request_window_bytes=SETTINGS.request_window_bytes,
            connection_window_bytes=SETTINGS.connection_window_bytes,
            congestion=congestion.ALGORITHM,
        )
        who = identity("dialler" if dialled else "listener")
        destination = None if other is None else other.quic.original_destination_connection_id
        self.dialled = dialled
        self.quic: Quic = Quic(
            limits=limits,
            configuration=configuration(
                limits, certificate(who), who.private_key, dialling=dialled
            ),
            original_destination_connection_id=destination,
        )
        self.connection = Connection(self.quic, SETTINGS, self, self, dialled=dialled)
        self.connection.link = Link(PeerId(bytes(32)), HELLO, "", dialled)
        self.streams: list[Stream] = []
        self.connection.serve(self.streams.append)
        self.greetings = 0
        self.heard: list[bytes] = []

    def touch(self, connection: Connection) -> None: ...

    def put_off(self, connection: Connection) -> None: ...

    def route(self, connection: Connection, connection_id: bytes) -> None: ...

    def unroute(self, connection: Connection, connection_id: bytes) -> None: ...

    def unfinished(self, connection: Connection, waiting_bytes: int, *, begun: bool) -> None: ...

    def greeted(self, connection: Connection) -> None:
        self.greetings += 1

    def received(self, connection: Connection, message: bytes) -> None:
        self.heard.append(message)

    def ended(self, connection: Connection) -> None: ...


class Bench:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.dialler = Side(dialled=True)
        self.listener = Side(dialled=False, other=self.dialler)
        self.dialler.quic.connect(ADDRESS[False], self.now_s)
        self.backlog_bytes = 0
        """The largest one seen."""

    async def run(self, turns: int = 50) -> None:
        """Each takes 2 ms, and lets all tasks go on until they wait."""
        for _ in range(turns):
            self.now_s += 0.002
            for source, target in (
                (self.dialler, self.listener),
                (self.listener, self.dialler),
            ):
                self.carry(source, target)
                target.connection.dispatch()
                await wait_all_tasks_blocked()

    def carry(self, source: Side, target: Side) -> None:
        if source.quic.get_peer_address() is None:
            return
        if (source.quic.get_timer() or math.inf) <= self.now_s:
            source.quic.handle_timer(self.now_s)
        for data, _ in source.quic.datagrams_to_send(self.now_s):
            target.quic.receive_datagram(data, ADDRESS[source.dialled], self.now_s)
        self.backlog_bytes = max(self.backlog_bytes, source.quic.backlog_bytes())
        source.connection.transmitted()

    async def open(self) -> tuple[Stream, Stream]:
        """A request's stream, as both sides have it."""
        count = len(self.listener.streams)
        stream = await self.dialler.connection.open_stream()
        await stream.send(b"?")
        await self.run(5)
        assert len(self.listener.streams) == count + 1
        return stream, self.listener.streams[-1]


def play(scene: Callable[[Bench, trio.Nursery], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                bench = Bench()
                await bench.run(10)
                bench.dialler.connection.send_control(b"hello")
                await bench.run(3)
                assert bench.listener.greetings == 1
                await scene(bench, nursery)
                nursery.cancel_scope.cancel()

    trio.run(main)
