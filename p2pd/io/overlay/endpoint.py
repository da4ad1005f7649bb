"""The one UDP socket and the one task that serves it: receive a batch, let readers run, send, wait.

Seconds of trio's clock. Each connection that was touched is asked for its datagrams once per turn:
that alone makes it three times as fast as answering each datagram.
"""

import logging
import socket
from collections.abc import Callable
from typing import Protocol

import trio
from aioquic.quic.configuration import QuicConfiguration

from p2pd.io.overlay._aioquic172 import Quic, QuicLimits
from p2pd.io.overlay._aioquic172_acks import GRANULARITY_S
from p2pd.io.overlay._aioquic172_in import CONNECTION_ID_BYTES
from p2pd.io.overlay.connection import CloseCode, Connection, Ending, Watcher
from p2pd.io.overlay.datagrams import Datagrams
from p2pd.io.overlay.doorman import Address, Caller, Doorman, read_header
from p2pd.io.overlay.settings import OverlaySettings, join_address
from p2pd.io.overlay.timers import Timers

BATCH_DATAGRAMS = 64
LONG = 0x80
HEAD_BYTES = 1 + CONNECTION_ID_BYTES
"""Of a short header, up to the packet number; a long one has LONG in its first byte (RFC 9000 17)."""

_log = logging.getLogger(__name__)


class Host(Watcher, Protocol):
    """The transport, as its endpoint sees it."""

    def half_open(self) -> int:
        """Callers that have not said hello yet."""
        ...

    def half_open_from(self, host: str) -> int:
        """Those of them that came from this address."""
        ...

    def called(self, connection: Connection, host: str) -> None:
        """A new caller, of which nothing is known yet but where it came from."""
        ...


class Endpoint:
    def __init__(
        self,
        udp: socket.socket,
        settings: OverlaySettings,
        configuration: Callable[[bool], QuicConfiguration],
        limits: QuicLimits,
        host: Host,
    ) -> None:
        """configuration: makes the one for dialling (True) or for being dialled."""
        self._datagrams = Datagrams(udp)
        self._settings = settings
        self._dialler, self._listener = configuration(True), configuration(False)
        self._limits = limits
        self._host = host
        self._doorman = Doorman()
        self._routes: dict[bytes, Connection] = {}
        self._touched: dict[Connection, None] = {}
        self._timers = Timers[Connection]()
        self._waiting = trio.CancelScope()
        self._sender = trio.lowlevel.ParkingLot()
        self._busy = False
        """Datagrams that came are being taken in: what is touched meanwhile is sent in the end."""

    @property
    def family(self) -> int:
        return self._datagrams.socket.family

    def dial(self, address: Address) -> Connection:
        quic = Quic(limits=self._limits, configuration=self._dialler)
        connection = Connection(quic, self._settings, self, self._host, dialled=True)
        self.route(connection, quic.host_cid)
        quic.connect(address, trio.current_time())
        self.touch(connection)
        return connection

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_touched)
            while True:
                self._busy = False
                with trio.CancelScope(deadline=self._timers.next_s()) as self._waiting:
                    await trio.lowlevel.wait_readable(self._datagrams.socket)
                self._busy = True
                received = self._receive(trio.current_time())
                woken = [self._dispatch(connection) for connection in received]
                if any(woken):
                    # Readers go first: what they write now shares packets with the acknowledgements.
                    await trio.lowlevel.checkpoint()
                self._fire(trio.current_time())
                self._flush()
                if self._touched:  # while it was flushed
                    self._sender.unpark()

    async def _send_touched(self) -> None:
        """Sends what is written while nothing comes in: cheaper than to wake the task that waits for datagrams."""
        while True:
            if self._touched:
                await trio.lowlevel.checkpoint()
            else:
                await self._sender.park()
            self._flush()
            self._waiting.deadline = self._timers.next_s()

    def close_all(self, why: str) -> None:
        """Closes every connection, and tells the other sides at once."""
        for connection in dict.fromkeys(self._routes.values()):
            connection.close(CloseCode.LEFT, why)
        self._flush()

    def _flush(self) -> None:
        """Sends what touched connections have to send."""
        touched, self._touched = self._touched, {}
        now_s = trio.current_time()
        for connection in touched:
            self._transmit(connection, now_s)

    def touch(self, connection: Connection) -> None:
        if not self._touched and not self._busy:
            self._sender.unpark()
        self._touched[connection] = None

    def put_off(self, connection: Connection) -> None:
        wanted_s = connection.quic.get_timer()
        if wanted_s is not None:
            self._timers.arm(connection, min(wanted_s, connection.put_off_until_s))
            self._waiting.deadline = self._timers.next_s()

    def route(self, connection: Connection, connection_id: bytes) -> None:
        self._routes[connection_id] = connection
        connection.connection_ids.add(connection_id)

    def unroute(self, connection: Connection, connection_id: bytes) -> None:
        self._routes.pop(connection_id, None)
        connection.connection_ids.discard(connection_id)

    def remote(self, connection: Connection) -> str:
        """host:port of the other side, as seen from here."""
        address = connection.quic.get_peer_address()
        return "" if address is None else join_address(address[0], address[1])

    # Receiving

    def _receive(self, now_s: float) -> list[Connection]:
        """Takes in a batch of datagrams; returns the connections they were for."""
        received: dict[Connection, None] = {}
        for run, address in self._datagrams.receive(BATCH_DATAGRAMS):
            start = 0
            while start < len(run):
                connection = self._find(run[start], address, now_s)
                end = _same_target(run, start)
                if connection is not None and self._take_in(
                    connection, run[start:end], address, now_s
                ):
                    received[connection] = None
                    self._touched[connection] = None
                start = end
        return list(received)

    def _find(self, data: bytes, address: Address, now_s: float) -> Connection | None:
        if not data:
            return None
        if not data[0] & LONG:
            return self._routes.get(data[1:HEAD_BYTES])
        header = read_header(data)
        if header is None:
            return None
        connection = self._routes.get(header.destination_cid)
        if connection is not None:
            return connection
        half_open = self._host.half_open()
        if half_open >= self._settings.half_open_max:
            return None
        if self._host.half_open_from(address[0]) >= self._settings.half_open_per_host:
            return None
        retry = half_open >= self._settings.half_open_retry
        verdict = self._doorman.examine(data, address, now_s, retry=retry)
        if isinstance(verdict, Caller):
            return self._accept(verdict, address[0])
        if verdict is not None:
            self._datagrams.send([(verdict, address)])
        return None

    def _accept(self, caller: Caller, host: str) -> Connection:
        quic = Quic(
            limits=self._limits,
            configuration=self._listener,
            original_destination_connection_id=caller.original,
            retry_source_connection_id=caller.retry_source,
        )
        connection = Connection(quic, self._settings, self, self._host, dialled=False)
        self.route(connection, caller.destination)
        self.route(connection, quic.host_cid)
        self._host.called(connection, host)
        return connection

    # Sending

    def _transmit(self, connection: Connection, now_s: float) -> None:
        if connection.quic.get_peer_address() is None:
            # A caller whose first datagram was not accepted: there is nobody to send to.
            self._drop(connection, "the first datagram was not understood")
            return
        datagrams: list[tuple[bytes, Address]] = []
        if not self._guard(connection, lambda q: datagrams.extend(q.datagrams_to_send(now_s))):
            return
        connection.sent_bytes += sum(len(data) for data, _ in datagrams)
        self._datagrams.send(datagrams)
        if connection.ending is not None and not connection.ending.by_peer and datagrams:
            connection.farewell = datagrams[-1:]
        connection.transmitted()
        wanted_s = connection.quic.get_timer()
        if wanted_s is not None:
            # One that is due already, and aioquic finds is not, is looked at again a little later.
            at_s = wanted_s if wanted_s > now_s else now_s + GRANULARITY_S
            self._timers.arm(connection, min(at_s, connection.put_off_until_s))

    def _repeat_farewell(self, connection: Connection) -> None:
        """Tells again that the connection is closed, ever more seldom (RFC 9000 10.2.1)."""
        connection.after_farewell += 1
        if connection.after_farewell & (connection.after_farewell - 1) == 0:
            self._datagrams.send(connection.farewell)

    # Timers

    def _fire(self, now_s: float) -> None:
        for connection in self._timers.due(now_s):
            wanted_s = connection.quic.get_timer()
            if wanted_s is None:
                self._forget(connection)
            elif connection.put_off_until_s <= now_s:
                connection.say_put_off()  # which touches it: it is armed again once that is sent
            elif wanted_s > now_s:
                self._timers.arm(connection, min(wanted_s, connection.put_off_until_s))
            else:
                self._expire(connection, now_s)

    def _expire(self, connection: Connection, now_s: float) -> None:
        if not self._guard(connection, lambda q: q.handle_timer(now_s)):
            return
        self._dispatch(connection)
        if connection.quic.get_timer() is None:
            self._forget(connection)
        else:
            self._touched[connection] = None

    # The end of a connection

    def _dispatch(self, connection: Connection) -> bool:
        """Hands on what has come. True if some task may want to go on."""
        woken: list[bool] = []
        return not self._guard(connection, lambda _: woken.append(connection.dispatch())) or any(
            woken
        )

    def _take_in(
        self, connection: Connection, run: list[bytes], address: Address, now_s: float
    ) -> bool:
        """True if the connection may have something to do now."""
        connection.received_bytes += sum(map(len, run))
        if not connection.farewell:
            return self._guard(connection, lambda q: q.receive_run(run, address, now_s))
        for _ in run:
            self._repeat_farewell(connection)
        return False

    def _guard(self, connection: Connection, act: Callable[[Quic], None]) -> bool:
        """Acts on a connection. If that fails, this connection ends and no other."""
        try:
            act(connection.quic)
        except Exception:  # noqa: BLE001  # one peer's packets must not end the node
            self._failed(connection)
            return False
        return True

    def _failed(self, connection: Connection) -> None:
        if connection.ending is None:
            _log.exception("a connection was dropped: what came on it failed")
        self._drop(connection, "internal error")

    def _drop(self, connection: Connection, why: str) -> None:
        """Ends a connection without a word to the other side."""
        connection.end(Ending(CloseCode.TRANSPORT, why, by_peer=False))
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        for connection_id in tuple(connection.connection_ids):
            self.unroute(connection, connection_id)
        self._timers.disarm(connection)
        self._touched.pop(connection, None)


def _same_target(run: list[bytes], start: int) -> int:
    """The end of those from start on that are for one connection, as far as their headers show."""
    named, end = _named(run[start]), start + 1
    while named and end < len(run) and _named(run[end]) == named:
        end += 1
    return end


def _named(data: bytes) -> bytes:
    """The connection id of a short header; empty for a long one."""
    return data[1:HEAD_BYTES] if data and not data[0] & LONG else b""
