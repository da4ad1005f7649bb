"""One QUIC connection: its events in, its streams, how it ends. Seconds of trio's clock, bytes.

Stream 0 is the control lane, opened by the dialler; all later streams are one request each.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import trio
from aioquic.quic import events

from p2pd.core.ids import PeerId, peer_id
from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.overlay._aioquic172 import Quic
from p2pd.io.overlay.framing import Deframer, frame
from p2pd.io.overlay.settings import OverlaySettings
from p2pd.io.overlay.streams import Stream
from p2pd.ports import Link

CONTROL_STREAM = 0
PATIENCE_S = 0.25
"""So long a message that nobody waits for is put off: with another it costs a tenth of what it costs alone."""
CLOSE_TEXT_BYTES = 500
"""A reason must fit into one datagram (RFC 9000 19.19)."""


class CloseCode(IntEnum):
    """Application error codes of CONNECTION_CLOSE."""

    LEFT = 1
    """The node stops, or wants no link with this peer any more."""
    REFUSED = 2
    """The other side broke a rule, or is not who it should be."""
    DUPLICATE = 3
    """There is another connection between the two."""
    DEAD = 4
    """Nothing was heard for too long."""
    TRANSPORT = 5
    """Not an application close: QUIC or TLS failed."""


@dataclass(frozen=True, slots=True)
class Ending:
    code: CloseCode
    text: str
    by_peer: bool


class Watcher(Protocol):
    """What happens on a connection, told to the transport. Nothing here may block or raise."""

    def greeted(self, connection: "Connection") -> None:
        """The other side's hello has come."""
        ...

    def received(self, connection: "Connection", message: bytes) -> None: ...

    def unfinished(self, connection: "Connection", waiting_bytes: int, *, begun: bool) -> None:
        """So much has come of a control message; begun: of another than before."""
        ...

    def ended(self, connection: "Connection") -> None: ...


class Socket(Protocol):
    """The endpoint, as a connection sees it."""

    def touch(self, connection: "Connection") -> None:
        """Has the connection's datagrams sent soon."""
        ...

    def put_off(self, connection: "Connection") -> None:
        """Has what was put off said at its time."""
        ...

    def route(self, connection: "Connection", connection_id: bytes) -> None: ...

    def unroute(self, connection: "Connection", connection_id: bytes) -> None: ...


class Connection:
    def __init__(
        self,
        quic: Quic,
        settings: OverlaySettings,
        socket: Socket,
        watcher: Watcher,
        *,
        dialled: bool,
    ) -> None:
        self.quic = quic
        self.dialled = dialled
        self.peer: PeerId | None = None
        """Set once the handshake has proved it."""
        self.link: Link | None = None
        self.hello: bytes | None = None
        """The other side's, as it came."""
        self.ending: Ending | None = None
        self.secured = trio.Event()
        self.greeted = trio.Event()
        self.settled = trio.Event()
        """Linked, or over. All three are set when the connection ends."""
        self.over = trio.Event()
        self.asking = trio.Semaphore(settings.requests_per_peer)
        self.answering = trio.Semaphore(settings.requests_per_peer)
        self.sent_bytes = 0
        self.received_bytes = 0
        self.connection_ids: set[bytes] = set()
        self.farewell: list[tuple[bytes, tuple[str, int]]] = []
        """The datagrams that said goodbye, to be repeated to a peer that did not hear them."""
        self.after_farewell = 0
        self.put_off_until_s = math.inf
        self._put_off = b""
        """Control messages that go with the next thing that is said, or at that time."""
        self._settings = settings
        self._socket = socket
        self._watcher = watcher
        self._deframer = Deframer(settings.message_bytes)
        self._streams: dict[int, Stream] = {}
        self._writers: dict[int, trio.Event] = {}  # streams that wait for room
        self._openers = trio.lowlevel.ParkingLot()
        self._waiting: list[Stream] = []  # requests that came before anyone answers
        self._serve: Callable[[Stream], None] = self._waiting.append
        self._pings: dict[int, trio.Event] = {}
        self._next_ping = 0

    # The control lane

    def send_control(self, message: bytes, *, patient: bool = False) -> bool:
        """False when the connection is over, or has as much under way as it may."""
        data = frame(message)
        waiting = self.quic.stream_backlog_bytes(CONTROL_STREAM) + len(self._put_off)
        if self.ending is not None or waiting + len(data) > self._settings.control_bytes:
            return False
        if not patient:
            self.write(CONTROL_STREAM, data, last=False)
            return True
        if not self._put_off:
            self.put_off_until_s = trio.current_time() + PATIENCE_S
            self._socket.put_off(self)
        self._put_off += data
        return True

    def say_put_off(self) -> None:
        data, self._put_off, self.put_off_until_s = self._put_off, b"", math.inf
        if data and self.ending is None:
            self.write(CONTROL_STREAM, data, last=False)

    async def drain(self) -> None:
        """Returns once all control messages are acknowledged, or the connection is over."""
        self.say_put_off()
        while self.ending is None and self.quic.stream_backlog_bytes(CONTROL_STREAM):
            acknowledged = self._writers[CONTROL_STREAM] = trio.Event()
            try:
                await acknowledged.wait()
            finally:
                self._writers.pop(CONTROL_STREAM, None)

    async def ping(self) -> None:
        """Returns when the other side has answered, or the connection is over."""
        if self.ending is not None:
            return
        number = self._next_ping
        self._next_ping += 1
        answered = self._pings[number] = trio.Event()
        self.quic.send_ping(number)
        self._socket.touch(self)
        try:
            await answered.wait()
        finally:
            self._pings.pop(number, None)

    # Streams

    async def open_stream(self) -> Stream:
        """Waits until the other side allows one more.

        Raises:
            UnreachableError: the connection is over.
        """
        self.raise_if_over()
        # Beyond the limit a stream would wait inside aioquic; a reset there breaks the connection.
        while self.quic.streams_left() <= 0:
            await self._openers.park()
            self.raise_if_over()
        stream = Stream(self, self.quic.get_next_available_stream_id())
        self._streams[stream.id] = stream
        self.write(stream.id, b"", last=False)
        return stream

    def serve(self, answer: Callable[[Stream], None]) -> None:
        """Hands over each request that comes, or has come."""
        self._serve = answer
        for stream in self._waiting:
            answer(stream)
        self._waiting.clear()

    def raise_if_over(self) -> None:
        if self.ending is not None:
            raise UnreachableError(f"the link ended: {self.ending.text}")

    async def room(self, stream_id: int) -> None:
        self.raise_if_over()
        while not self._has_room(stream_id):
            freed = self._writers[stream_id] = trio.Event()
            try:
                await freed.wait()
            finally:
                self._writers.pop(stream_id, None)
            self.raise_if_over()

    def _has_room(self, stream_id: int) -> bool:
        if self.quic.backlog_bytes() < self._settings.backlog_bytes:
            return True
        # What one reader does not take must not hold up the others on this connection.
        return self.quic.stream_backlog_bytes(stream_id) == 0

    def write(self, stream_id: int, data: bytes | memoryview, *, last: bool) -> None:
        if self._put_off:
            self.say_put_off()
        self.quic.send_stream_data(stream_id, data, end_stream=last)  # type: ignore[arg-type]  # any buffer will do
        self._socket.touch(self)

    def taken(self, stream_id: int, count: int, *, wanted: bool) -> None:
        if self.quic.read(stream_id, count, wanted=wanted):
            self._socket.touch(self)

    def end_halves(self, stream_id: int, *, reset: bool, stop: bool) -> None:
        if self.ending is None:
            if reset:
                self.quic.reset_stream(stream_id, 0)
            if stop:
                self.quic.stop_stream(stream_id, 0)
            self._socket.touch(self)

    def closed(self, stream: Stream) -> None:
        self.quic.forget(stream.id)
        self._streams.pop(stream.id, None)

    # Ending

    def close(self, code: CloseCode, text: str) -> None:
        """Tells the other side, and ends all that goes on here at once."""
        if self.ending is None:
            text = text.encode()[:CLOSE_TEXT_BYTES].decode(errors="ignore")
            self.quic.close(error_code=code, reason_phrase=text)
            self._socket.touch(self)
            self.end(Ending(code, text, by_peer=False))

    def end(self, ending: Ending) -> None:
        """Wakes everything that waits on this connection; only the first call counts."""
        if self.ending is not None:
            return
        self.ending = ending
        for event in (self.secured, self.greeted, self.settled, self.over, *self._pings.values()):
            event.set()
        for stream in self._streams.values():
            stream.cut()
        for freed in self._writers.values():
            freed.set()
        self._openers.unpark_all()
        self._watcher.ended(self)

    # What the endpoint calls

    def dispatch(self) -> bool:
        """Handles all events that wait. True if some task may want to go on."""
        woken = False
        while (event := self.quic.next_event()) is not None:
            woken = True
            try:
                self._handle(event)
            except RemoteError as error:
                self.close(CloseCode.REFUSED, str(error))
        if self.ending is None and (closing := self.quic.closing()) is not None:
            self._terminated(closing)
            woken = True
        # A raised limit on streams comes without an event.
        if self._openers and self.quic.streams_left() > 0:
            self._openers.unpark_all()
            woken = True
        return woken

    def transmitted(self) -> None:
        """Lets writers go on once half of the backlog, or all of their own, has been acknowledged."""
        if not self._writers:
            return
        low = self.quic.backlog_bytes() <= self._settings.backlog_bytes // 2
        for stream_id, freed in self._writers.items():
            if low or self.quic.stream_backlog_bytes(stream_id) == 0:
                freed.set()

    def _handle(self, event: events.QuicEvent) -> None:
        match event:
            case events.StreamDataReceived():
                self._arrived(event)
            case events.StreamReset():
                self._gave_up_sending(event.stream_id)
            case events.StopSendingReceived():
                self._gave_up_reading(event.stream_id)
            case events.HandshakeCompleted():
                self._secure()
            case events.PingAcknowledged():
                if (answered := self._pings.pop(event.uid, None)) is not None:
                    answered.set()
            case events.ConnectionIdIssued():
                self._socket.route(self, event.connection_id)
            case events.ConnectionIdRetired():
                self._socket.unroute(self, event.connection_id)

    def _secure(self) -> None:
        key = self.quic.peer_key()
        if key is None:
            raise RemoteError("no certificate with an Ed25519 key was presented")
        self.peer = peer_id(key)
        self.secured.set()

    def _arrived(self, event: events.StreamDataReceived) -> None:
        if self.ending is not None:
            return
        if event.stream_id != CONTROL_STREAM:
            self._stream(event.stream_id).feed(event.data, complete=event.end_stream)
            return
        if event.end_stream:
            raise RemoteError("the control lane was ended")
        self.taken(CONTROL_STREAM, len(event.data), wanted=True)
        messages = self._deframer.feed(event.data)
        self._watcher.unfinished(self, self._deframer.waiting_bytes, begun=bool(messages))
        for message in messages:
            if self.ending is not None:
                return
            if self.hello is None:
                self.hello = message
                self.greeted.set()
                self._watcher.greeted(self)
            elif self.link is None:
                raise RemoteError("a message came before the hello was answered")
            else:
                self._watcher.received(self, message)

    def _stream(self, stream_id: int) -> Stream:
        stream = self._streams.get(stream_id)
        if stream is None:
            if self.link is None and not self.dialled:
                raise RemoteError("a request came before the hello was answered")
            if len(self._streams) > 4 * self._settings.requests_per_peer:
                raise RemoteError("more requests were begun and dropped than are answered at once")
            stream = self._streams[stream_id] = Stream(self, stream_id)
            if self.quic.was_stopped(stream_id):
                # The asker gave up, and that overtook the request itself.
                stream.stopped()
            self._serve(stream)
        return stream

    def _gave_up_sending(self, stream_id: int) -> None:
        if stream_id == CONTROL_STREAM:
            raise RemoteError("the control lane was reset")
        if self.quic.discard(stream_id):
            self._socket.touch(self)
        if (stream := self._streams.get(stream_id)) is not None:
            stream.reset()
        else:
            # Begun and given up at once: our half has to be ended too.
            self.end_halves(stream_id, reset=True, stop=False)

    def _gave_up_reading(self, stream_id: int) -> None:
        if stream_id == CONTROL_STREAM:
            raise RemoteError("the control lane was declined")
        if (stream := self._streams.get(stream_id)) is not None:
            stream.stopped()

    def _terminated(self, event: events.ConnectionTerminated) -> None:
        code, text = CloseCode.TRANSPORT, event.reason_phrase or f"QUIC error {event.error_code}"
        if event.frame_type is None and event.error_code in set(CloseCode):
            code, text = CloseCode(event.error_code), event.reason_phrase
        self.end(Ending(code, text, by_peer=self.quic.closed_by_peer()))
