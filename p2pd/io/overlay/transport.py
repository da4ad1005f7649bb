"""The Transport port over QUIC: who is linked to whom, and how two nodes agree on one connection.

A dialler says hello only while it has no link to that peer. So a hello over a second connection
means that both dialled at once, or that the other side has lost the first connection:
- both dialled: the connection dialled by the smaller peer id stays. The smaller one keeps the
  other's hello unanswered until its own dial is settled; the greater one gives its own dial up.
- otherwise the existing link is probed: it answers and stays, or is replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import trio
from aioquic.quic.configuration import QuicConfiguration

from p2pd.core.hello import Hello
from p2pd.core.ids import PeerId, short
from p2pd.errors import LocalError, P2pError, RemoteError, UnreachableError
from p2pd.io.overlay import congestion
from p2pd.io.overlay._aioquic172 import QuicLimits, configuration, silence
from p2pd.io.overlay.connection import CloseCode, Connection
from p2pd.io.overlay.endpoint import Endpoint
from p2pd.io.overlay.framing import check_hello, encode_hello
from p2pd.io.overlay.identity import Identity, certificate
from p2pd.io.overlay.requests import Answers, ask
from p2pd.io.overlay.settings import OverlaySettings
from p2pd.io.overlay.sockets import advertised, open_socket, resolve
from p2pd.io.overlay.unfinished import Unfinished
from p2pd.ports import Link, LinkHandler

MISSED_PINGS = 3
KEPT_SHARE = 8
"""One place in so many is kept for members."""
LEAVING = "the node is stopping"


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """UDP payload of one link since it was opened."""

    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class _Running:
    handler: LinkHandler
    endpoint: Endpoint
    nursery: trio.Nursery


class QuicTransport:
    def __init__(
        self,
        settings: OverlaySettings,
        identity: Identity,
        hello: Callable[[str], Hello],
        members: frozenset[PeerId] = frozenset(),
    ) -> None:
        """
        Args:
            hello: What this node says, given where it takes connections or an empty text.
            members: For them places are kept that strangers do not get, however many there are.
        """
        silence()
        congestion.register()
        self._settings = settings
        self._identity = identity
        self._peer = identity.peer
        self._make_hello = hello
        self._members = members
        self._answers = Answers(settings)
        self._links: dict[PeerId, Connection] = {}
        self._dials: dict[PeerId, Connection] = {}
        """Connections dialled here on which hello was said and not answered yet."""
        self._callers: dict[Connection, str] = {}
        """And the host of each."""
        self._unfinished = Unfinished[Connection]()
        self._dial_locks: dict[str, trio.Lock] = {}
        self._address = ""
        self._running: _Running | None = None
        self._stopped = False

    @property
    def peer(self) -> PeerId:
        return self._peer

    @property
    def address(self) -> str:
        return self._address

    def links(self) -> tuple[Link, ...]:
        current = (self._links[peer].link for peer in sorted(self._links))
        return tuple(link for link in current if link is not None)

    def counters(self) -> dict[PeerId, LinkCounters]:
        """What each link has carried so far."""
        return {
            peer: LinkCounters(connection.sent_bytes, connection.received_bytes)
            for peer, connection in self._links.items()
        }

    def send(self, peer: PeerId, message: bytes, *, patient: bool = False) -> bool:
        if len(message) > self._settings.message_bytes:
            raise LocalError(
                f"control message of {len(message)} bytes exceeds {self._settings.message_bytes}"
            )
        connection = self._links.get(peer)
        return connection is not None and connection.send_control(message, patient=patient)

    async def drain(self) -> None:
        async with trio.open_nursery() as nursery:
            for connection in self._links.values():
                nursery.start_soon(connection.drain)

    async def request(self, peer: PeerId, message: bytes, *, limit_bytes: int) -> bytes:
        connection = self._links.get(peer)
        if connection is None:
            raise UnreachableError(f"no link to {short(peer)}")
        return await ask(connection, message, limit_bytes)

    def disconnect(self, peer: PeerId, why: str) -> None:
        if (connection := self._links.get(peer)) is not None:
            connection.close(CloseCode.LEFT, why)

    async def connect(self, address: str, peer: PeerId | None) -> Link:
        running = self._require_running()
        if self._stopped:
            raise LocalError("the transport has stopped")
        if peer == self._peer:
            raise RemoteError(f"{address}: a node does not connect to itself")
        # One dial at a time per address: whoever comes second finds the link.
        lock = self._dial_locks.setdefault(address, trio.Lock())
        try:
            async with lock:
                existing = self._linked(address, peer)
                return (
                    existing if existing is not None else await self._dial(running, address, peer)
                )
        finally:
            if not lock.locked():
                self._dial_locks.pop(address, None)

    async def run(
        self, handler: LinkHandler, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        if self._running is not None:
            raise LocalError("a transport runs once")
        with await open_socket(self._settings.listen) as udp:
            self._address = advertised(self._settings, udp)
            limits = self._limits()
            endpoint = Endpoint(udp, self._settings, self._configure(limits), limits, self)
            async with trio.open_nursery() as nursery:
                self._running = _Running(handler, endpoint, nursery)
                task_status.started()
                try:
                    await endpoint.run()
                finally:
                    endpoint.close_all(LEAVING)
                    self._stopped = True
                    nursery.cancel_scope.cancel()

    def _limits(self) -> QuicLimits:
        settings = self._settings
        return QuicLimits(
            datagram_bytes=settings.datagram_bytes,
            idle_s=settings.idle_s,
            streams=settings.requests_per_peer + 1,
            stream_window_bytes=settings.stream_window_bytes,
            request_window_bytes=settings.request_window_bytes,
            connection_window_bytes=settings.connection_window_bytes,
            congestion=congestion.ALGORITHM,
        )

    def _configure(self, limits: QuicLimits) -> Callable[[bool], QuicConfiguration]:
        key = self._identity.private_key
        own = certificate(self._identity)
        return lambda dialling: configuration(limits, own, key, dialling=dialling)

    def _require_running(self) -> _Running:
        if self._running is None:
            raise LocalError("the transport is not running")
        return self._running

    # Dialling

    async def _dial(self, running: "_Running", address: str, peer: PeerId | None) -> Link:
        with trio.move_on_after(self._settings.dial_s):
            connection = running.endpoint.dial(await resolve(address, running.endpoint.family))
            try:
                return await self._introduce(connection, address, peer)
            finally:
                if connection.link is None:
                    connection.close(CloseCode.LEFT, "the dial was given up")
        raise UnreachableError(f"{address} did not answer within {self._settings.dial_s:g} s")

    async def _introduce(self, connection: Connection, address: str, peer: PeerId | None) -> Link:
        await connection.secured.wait()
        found = connection.peer
        if found is None:
            raise _dial_error(address, connection)
        self._check_identity(connection, address, peer)
        while True:
            if (existing := self._links.get(found)) is not None:
                connection.close(CloseCode.DUPLICATE, "linked already")
                assert existing.link is not None
                return existing.link
            if (other := self._dials.get(found)) is None:
                break
            await other.settled.wait()
        self._dials[found] = connection
        connection.send_control(encode_hello(self._make_hello(self._address)))
        await connection.settled.wait()
        # The peer may have come in by a connection of its own meanwhile.
        linked = connection if connection.link is not None else self._links.get(found)
        if linked is None or linked.link is None:
            raise _dial_error(address, connection)
        return linked.link

    def _check_identity(self, connection: Connection, address: str, peer: PeerId | None) -> None:
        error = None
        if connection.peer == self._peer:
            error = f"{address} is this node itself"
        elif peer is not None and connection.peer != peer:
            error = f"{address} is peer {short(connection.peer or b'')}, expected was {short(peer)}"
        if error is not None:
            connection.close(CloseCode.REFUSED, error)
            raise RemoteError(error)

    def _linked(self, address: str, peer: PeerId | None) -> Link | None:
        if peer is not None:
            connection = self._links.get(peer)
            return None if connection is None else connection.link
        for link in self.links():
            if address in (link.hello.address, link.remote):
                return link
        return None

    # Being dialled

    async def _receive_caller(self, connection: Connection) -> None:
        """From the first datagram of a caller to its link."""
        try:
            with trio.move_on_after(self._settings.handshake_s) as deadline:
                await connection.greeted.wait()
                hello = self._read_hello(connection)
                if hello is not None and await self._settle(connection):
                    self._adopt(connection, hello)
            if deadline.cancelled_caught:
                connection.close(CloseCode.REFUSED, "the handshake took too long")
        finally:
            self._callers.pop(connection, None)

    def _read_hello(self, connection: Connection) -> Hello | None:
        """None, and the connection closed, if what the other side says will not do."""
        if connection.ending is not None or connection.hello is None:
            return None
        try:
            self._check_place(connection)
            return check_hello(connection.hello, self._make_hello(self._address))
        except RemoteError as error:
            connection.close(CloseCode.REFUSED, str(error))
            return None

    def _check_place(self, connection: Connection) -> None:
        if connection.peer == self._peer:
            raise RemoteError("a node does not connect to itself")
        places = self._settings.peers_max
        if connection.peer not in self._members:
            places -= places // KEPT_SHARE if self._members else 0
        full = len(self._links) >= places
        if full and not connection.dialled and connection.peer not in self._links:
            raise RemoteError(f"all {places} places for peers like this are taken")

    async def _settle(self, connection: Connection) -> bool:
        """True if this connection is to be the link with its peer: see the module's docstring."""
        peer = connection.peer
        assert peer is not None
        while connection.ending is None:
            dial = self._dials.get(peer)
            if dial is not None and self._peer < peer:
                await dial.settled.wait()
                continue
            current = self._links.get(peer)
            if current is None:
                if dial is not None:
                    dial.close(CloseCode.DUPLICATE, "the other dial is kept")
                return True
            if await self._answers_probe(current):
                link = current.link
                place = (link.hello.address or link.remote) if link is not None else "another place"
                # Read only by one that has no link here: by another node with the same key.
                connection.close(CloseCode.DUPLICATE, f"this identity is live at {place}")
            else:
                current.close(CloseCode.DUPLICATE, "the peer connected again")
        return False

    async def _answers_probe(self, connection: Connection) -> bool:
        with trio.move_on_after(self._settings.probe_s) as probe:
            await connection.ping()
        return connection.ending is None and not probe.cancelled_caught

    # Being linked

    def _adopt(self, connection: Connection, hello: Hello) -> None:
        running = self._require_running()
        peer = connection.peer
        assert peer is not None
        remote = running.endpoint.remote(connection)
        link = Link(peer, hello, remote, connection.dialled)
        connection.link = link
        self._callers.pop(connection, None)
        if self._dials.get(peer) is connection:
            del self._dials[peer]
        if not connection.dialled:
            connection.send_control(encode_hello(self._make_hello(self._address)))
        self._links[peer] = connection
        connection.settled.set()
        running.handler.connected(link)
        running.nursery.start_soon(self._keep_alive, connection)
        answer = partial(running.handler.answer, peer)
        connection.serve(
            lambda stream: running.nursery.start_soon(
                self._answers.answer, connection, stream, answer
            )
        )

    async def _keep_alive(self, connection: Connection) -> None:
        """Ends a connection whose other side went without a word, before idle_s is over."""
        missed = 0
        while missed < MISSED_PINGS:
            next_s = trio.current_time() + self._settings.keep_alive_s
            with trio.move_on_at(next_s) as ping:
                await connection.ping()
            missed = missed + 1 if ping.cancelled_caught else 0
            with trio.move_on_at(next_s):
                await connection.over.wait()
                return
        connection.close(CloseCode.DEAD, f"{MISSED_PINGS} pings in a row were not answered")

    # What connections and the endpoint report

    def half_open(self) -> int:
        return len(self._callers)

    def half_open_from(self, host: str) -> int:
        return sum(one == host for one in self._callers.values())

    def called(self, connection: Connection, host: str) -> None:
        self._callers[connection] = host
        self._require_running().nursery.start_soon(self._receive_caller, connection)

    def greeted(self, connection: Connection) -> None:
        # A caller's hello may have to wait, and is dealt with in its task. Messages can follow the
        # hello of the side that was dialled in the same datagram, so that its link is made here.
        if connection.dialled and (hello := self._read_hello(connection)) is not None:
            self._adopt(connection, hello)

    def unfinished(self, connection: Connection, waiting_bytes: int, *, begun: bool) -> None:
        oldest = self._unfinished.note(connection, waiting_bytes, begun=begun)
        if oldest is not None:
            oldest.close(CloseCode.REFUSED, "its message was long in coming, and others need room")

    def received(self, connection: Connection, message: bytes) -> None:
        assert connection.peer is not None
        self._require_running().handler.received(connection.peer, message)

    def ended(self, connection: Connection) -> None:
        self._callers.pop(connection, None)
        self._unfinished.forget(connection)
        peer = connection.peer
        if peer is None:
            return
        if self._dials.get(peer) is connection:
            del self._dials[peer]
        link, ending = connection.link, connection.ending
        if link is not None and ending is not None and self._links.get(peer) is connection:
            del self._links[peer]
            self._require_running().handler.disconnected(link, ending.text)


def _dial_error(address: str, connection: Connection) -> P2pError:
    """Why a dial came to nothing."""
    ending = connection.ending
    assert ending is not None
    if ending.code is CloseCode.REFUSED:
        return RemoteError(
            f"{address} {'refused' if ending.by_peer else 'will not do'}: {ending.text}"
        )
    return UnreachableError(f"{address} ended the connection: {ending.text}")
