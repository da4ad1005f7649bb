"""Nodes for the tests of the overlay, and a lossy relay to put between two of them. Seconds."""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256

import trio
from aioquic.quic import events

from p2pd.core.hello import Hello
from p2pd.core.ids import PeerId
from p2pd.errors import UnreachableError
from p2pd.io.overlay import Identity, OverlaySettings, QuicTransport
from p2pd.io.overlay._aioquic172 import Quic, QuicLimits, configuration
from p2pd.io.overlay.identity import certificate
from tests.ports.transport_contract import HELLO, Node, Recorder

SETTINGS = OverlaySettings()

PATTERN = bytes(range(251))

Gate = Callable[[bytes, bool], Awaitable[bool]]


def identity(name: str) -> Identity:
    return Identity(sha256(name.encode()).digest())


def transport(
    name: str, hello: Hello = HELLO, settings: OverlaySettings = SETTINGS
) -> QuicTransport:
    return QuicTransport(settings, identity(name), lambda address: replace(hello, address=address))


class Server(Recorder):
    """Answers with as many bytes as the request says; counts how many it answers at once."""

    now = most = 0

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await trio.lowlevel.checkpoint()
            if request == b"broken":
                raise ZeroDivisionError("a mistake")
            if request == b"elsewhere":
                raise UnreachableError("another peer is away")
            return PATTERN * (int(request) // len(PATTERN))
        finally:
            self.now -= 1


def serve(bob: Node) -> Server:
    server = Server()
    bob.seen.answer = server.answer  # type: ignore[method-assign]
    return server


def udp() -> trio.socket.SocketType:
    return trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


async def everything(datagram: bytes, forward: bool) -> bool:
    return True


async def nothing(datagram: bytes, forward: bool) -> bool:
    return False


class Relay:
    """Passes datagrams between callers and one target: forward ones go to the target."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.gate: Gate = everything
        """May wait, which holds up what comes after; says whether a datagram gets through."""
        self.address = ""
        self._target = (host, int(port))
        self._back: dict[tuple[str, int], trio.socket.SocketType] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with udp() as front:
            await front.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{front.getsockname()[1]}"
            async with trio.open_nursery() as nursery:
                task_status.started()
                try:
                    while True:
                        data, caller = await front.recvfrom(2**16)
                        if caller not in self._back:
                            back = self._back[caller] = udp()
                            await back.bind(("127.0.0.1", 0))
                            nursery.start_soon(self._return, front, back, caller)
                        if await self.gate(data, True):
                            await self._back[caller].sendto(data, self._target)
                finally:
                    for back in self._back.values():
                        back.close()

    async def _return(
        self,
        front: trio.socket.SocketType,
        back: trio.socket.SocketType,
        caller: tuple[str, int],
    ) -> None:
        while True:
            data, _ = await back.recvfrom(2**16)
            if await self.gate(data, False):
                await front.sendto(data, caller)


LIMITS = QuicLimits(
    datagram_bytes=1200,
    idle_s=60.0,
    streams=8,
    stream_window_bytes=64 * 2**10,
    request_window_bytes=32 * 2**10,
    connection_window_bytes=128 * 2**10,
    congestion="reno",
)


async def stranger(
    address: str, script: Callable[[Quic], None], *, anonymous: bool = False
) -> events.ConnectionTerminated:
    """Calls a node by the bare protocol, plays script once the handshake is done; tells how it ended."""
    who = identity("stranger")
    settings = configuration(LIMITS, certificate(who), who.private_key, dialling=True)
    if anonymous:
        settings.certificate = settings.private_key = None
    quic = Quic(limits=LIMITS, configuration=settings)
    host, _, port = address.rpartition(":")
    with udp() as sock:
        quic.connect((host, int(port)), trio.current_time())
        while True:
            while (event := quic.next_event()) is not None:
                if isinstance(event, events.HandshakeCompleted):
                    script(quic)
                elif isinstance(event, events.ConnectionTerminated):
                    return event
            for data, target in quic.datagrams_to_send(trio.current_time()):
                await sock.sendto(data, target)
            with trio.move_on_at(quic.get_timer() or 0.0) as wait:
                data, source = await sock.recvfrom(2**16)
                quic.receive_datagram(data, source, trio.current_time())
            if wait.cancelled_caught:
                quic.handle_timer(trio.current_time())
