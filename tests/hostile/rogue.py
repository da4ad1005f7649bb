"""A caller by stock aioquic, with an identity of its own, that says and does anything. Seconds, bytes."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import trio
from aioquic.quic import events
from aioquic.quic.connection import QuicConnection

from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import NetworkId
from p2pd.core.signed import Signed
from p2pd.core.talk import Objects, dump_talk
from p2pd.io.keys import Ed25519Signer
from p2pd.io.overlay import Identity
from p2pd.io.overlay._aioquic172 import QuicLimits, configuration
from p2pd.io.overlay.framing import Deframer, encode_hello, frame
from p2pd.io.overlay.identity import certificate
from p2pd.wire.envelope import dump

LIMITS = QuicLimits(
    datagram_bytes=1200,
    idle_s=60.0,
    streams=64,
    stream_window_bytes=2**20,
    request_window_bytes=2**20,
    connection_window_bytes=2**24,
    congestion="cubic",
)
MESSAGE_BYTES = 2**24
CONTROL = 0

Answer = Callable[[bytes], bytes | None]


def signer_of(name: str) -> Ed25519Signer:
    return Ed25519Signer(sha256(f"rogue {name}".encode()).digest())


ROGUE = signer_of("rogue").peer


def stall(request: bytes) -> bytes | None:
    return None


@dataclass(eq=False)
class Rogue:
    signer: Ed25519Signer
    address: tuple[str, int]
    answer: Answer = stall
    """The bytes that answer a request, status and length included; None never answers."""
    reads: bool = True
    """False: nothing that comes is taken in, so that the other side gets no acknowledgements."""
    source: str = "127.0.0.1"
    heard: list[bytes] = field(default_factory=list)
    """Control messages that came, the hello first."""
    requests: dict[int, bytearray] = field(default_factory=dict)
    answers: dict[int, bytearray] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    """Requests that the other side reads no further."""
    ended: events.ConnectionTerminated | None = None
    changed: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        identity = Identity(self.signer.seed)
        settings = configuration(LIMITS, certificate(identity), identity.private_key, dialling=True)
        self.quic = QuicConnection(configuration=settings)
        self._deframer = Deframer(MESSAGE_BYTES)
        self.socket = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until the connection has ended; started once the handshake is done, or has failed."""
        with self.socket:
            await self.socket.bind((self.source, 0))
            self.quic.connect(self.address, trio.current_time())
            await self.flush()
            started = False
            while self.ended is None:
                with trio.move_on_at(self.quic.get_timer() or 0.0) as wait:
                    if self.reads:
                        data, source = await self.socket.recvfrom(2**16)
                        self.quic.receive_datagram(data, source, trio.current_time())
                    else:
                        await self.changed.wait()
                if wait.cancelled_caught:
                    self.quic.handle_timer(trio.current_time())
                secured = self._take_events()
                if (secured or self.ended is not None) and not started:
                    started = True
                    task_status.started()
                self.note()
                await self.flush()

    async def flush(self) -> None:
        for data, target in self.quic.datagrams_to_send(trio.current_time()):
            await self.socket.sendto(data, target)

    async def write(self, data: bytes, stream_id: int = CONTROL, *, last: bool = False) -> None:
        self.quic.send_stream_data(stream_id, data, end_stream=last)
        await self.flush()

    async def say(self, *messages: bytes) -> None:
        await self.write(b"".join(map(frame, messages)))

    async def ask(self, request: bytes, *, last: bool = True) -> int:
        stream_id = self.quic.get_next_available_stream_id()
        await self.write(request, stream_id, last=last)
        return stream_id

    def note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.changed.wait()

    async def end(self) -> events.ConnectionTerminated:
        """How the other side ends it."""
        await self.until(lambda: self.ended is not None)
        assert self.ended is not None
        return self.ended

    def _take_events(self) -> bool:
        secured = False
        while (event := self.quic.next_event()) is not None:
            match event:
                case events.HandshakeCompleted():
                    secured = True
                case events.ConnectionTerminated():
                    self.ended = event
                case events.StopSendingReceived():
                    self.dropped.add(event.stream_id)
                case events.StreamDataReceived(stream_id=0):
                    self.heard += self._deframer.feed(event.data)
                case events.StreamDataReceived() if event.stream_id % 4 == 1:
                    self._asked(event)
                case events.StreamDataReceived():
                    self.answers.setdefault(event.stream_id, bytearray()).extend(event.data)
        return secured

    def _asked(self, event: events.StreamDataReceived) -> None:
        request = self.requests.setdefault(event.stream_id, bytearray())
        request += event.data
        if event.end_stream:
            answer = self.answer(bytes(self.requests.pop(event.stream_id)))
            if answer is not None:
                self.quic.send_stream_data(event.stream_id, answer, end_stream=True)


def answered(body: bytes) -> bytes:
    return bytes(1) + len(body).to_bytes(8) + body


def hello(network: NetworkId, *roles: str) -> bytes:
    return frame(encode_hello(Hello(PROTOCOL_VERSION, network, roles, "", "rogue")))


@asynccontextmanager
async def calling(address: str, name: str = "rogue", **habits: object) -> AsyncIterator[Rogue]:
    """Connected, the handshake done, and nothing said yet."""
    host, _, port = address.rpartition(":")
    rogue = Rogue(signer_of(name), (host, int(port)))
    for habit, value in habits.items():
        setattr(rogue, habit, value)
    async with trio.open_nursery() as nursery:
        await nursery.start(rogue.run)
        yield rogue
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def linked(
    address: str, network: NetworkId, name: str = "rogue", *roles: str, **habits: object
) -> AsyncIterator[Rogue]:
    """Past the hello, if the other side takes it."""
    async with calling(address, name, **habits) as rogue:
        await rogue.write(hello(network, *(roles or ("validator",))))
        await rogue.until(lambda: bool(rogue.heard) or rogue.ended is not None)
        yield rogue


def objects(*signed: Signed[Any]) -> bytes:
    return dump_talk(Objects(tuple(dump(one) for one in signed)))
