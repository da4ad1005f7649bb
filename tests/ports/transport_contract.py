"""What each implementation of port Transport does. Every function takes a way to make transports.

make(name, hello) gives a transport that is not running yet; the same name is the same peer. It says
hello with its own address filled in. Nothing is lost between transports made by one make.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import trio

from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import NetworkId, PeerId, short
from p2pd.errors import RemoteError, UnreachableError
from p2pd.ports import Link, Transport

HELLO = Hello(PROTOCOL_VERSION, NetworkId(b"n" * 32), ("trainer", "viewer"), "", "contract/1")
LIMIT_BYTES = 2**20
DEADLINE_S = 30.0

Make = Callable[[str, Hello], Transport]


@dataclass
class Recorder:
    """Writes down what a transport calls; wakes whoever waits for it."""

    connections: list[Link] = field(default_factory=list)
    disconnections: list[tuple[Link, str]] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    answering: int = 0
    changed: trio.Event = field(default_factory=trio.Event)

    def note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, condition: Callable[["Recorder"], bool]) -> None:
        while not condition(self):
            await self.changed.wait()

    def connected(self, link: Link) -> None:
        self.connections.append(link)
        self.note()

    def disconnected(self, link: Link, why: str) -> None:
        self.disconnections.append((link, why))
        self.note()

    def received(self, peer: PeerId, message: bytes) -> None:
        self.messages.append(message)
        self.note()

    async def answer(self, peer: PeerId, request: bytes) -> bytes:
        self.answering += 1
        self.note()
        try:
            if request == b"never":
                await trio.sleep_forever()
            if request == b"refuse":
                raise RemoteError("not for you")
            return request + b"!"
        finally:
            self.answering -= 1
            self.note()


@dataclass(eq=False)
class Node:
    transport: Transport
    seen: Recorder
    life: trio.CancelScope
    over: trio.Event

    @property
    def peer(self) -> PeerId:
        return self.transport.peer

    async def dial(self, other: "Node") -> Link:
        return await self.transport.connect(other.transport.address, other.peer)

    async def stop(self) -> None:
        self.life.cancel()
        await self.over.wait()


async def start(nursery: trio.Nursery, transport: Transport) -> Node:
    node = Node(transport, Recorder(), trio.CancelScope(), trio.Event())

    async def live(task_status: trio.TaskStatus[None]) -> None:
        with node.life:
            await transport.run(node.seen, task_status=task_status)
        node.over.set()

    await nursery.start(live)
    return node


@asynccontextmanager
async def running(*transports: Transport) -> AsyncIterator[list[Node]]:
    """The transports, each with its recorder; stopped at the end."""
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            yield [await start(nursery, transport) for transport in transports]
            nursery.cancel_scope.cancel()


def pair(make: Make) -> tuple[Transport, Transport]:
    return make("alice", HELLO), make("bob", HELLO)


async def a_link_is_known_on_both_sides(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        link = await alice.dial(bob)
        await bob.seen.until(lambda seen: bool(seen.connections))
        assert (link.peer, link.dialled) == (bob.peer, True)
        assert link.remote == bob.transport.address
        assert link.hello == replace(HELLO, address=bob.transport.address)
        back = bob.seen.connections[0]
        assert (back.peer, back.dialled) == (alice.peer, False)
        assert back.hello == replace(HELLO, address=alice.transport.address)
        assert alice.transport.links() == (link,) == tuple(alice.seen.connections)
        assert bob.transport.links() == (back,)


async def links_are_sorted_by_peer(make: Make) -> None:
    async with running(*(make(name, HELLO) for name in "abcde")) as (hub, *others):
        for other in others:
            await hub.dial(other)
        peers = [link.peer for link in hub.transport.links()]
        assert peers == sorted(other.peer for other in others)


async def connecting_again_returns_the_link_that_exists(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        first = await alice.dial(bob)
        assert await alice.dial(bob) == first
        assert await alice.transport.connect(bob.transport.address, None) == first
        assert await bob.dial(alice) == bob.transport.links()[0]
        assert len(alice.seen.connections) == len(bob.seen.connections) == 1


async def a_peer_need_not_be_named(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        link = await alice.transport.connect(bob.transport.address, None)
        assert link.peer == bob.peer


async def another_peer_than_expected_is_refused(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        with pytest.raises(RemoteError, match=short(bob.peer)):
            await alice.transport.connect(bob.transport.address, PeerId(b"x" * 32))
        assert alice.transport.links() == bob.transport.links() == ()
        assert not alice.seen.connections
        assert not bob.seen.connections


async def a_node_does_not_connect_to_itself(make: Make) -> None:
    async with running(make("alice", HELLO)) as (alice,):
        with pytest.raises(RemoteError, match="itself"):
            await alice.transport.connect(alice.transport.address, None)
        assert not alice.seen.connections


async def another_network_is_refused_and_both_are_named(make: Make) -> None:
    other = replace(HELLO, network=NetworkId(b"m" * 32))
    async with running(make("alice", other), make("bob", HELLO)) as (alice, bob):
        with pytest.raises(RemoteError) as caught:
            await alice.dial(bob)
        assert short(HELLO.network) in str(caught.value)
        assert short(other.network) in str(caught.value)
        assert alice.transport.links() == bob.transport.links() == ()
        assert not alice.seen.connections
        assert not bob.seen.connections


async def another_version_is_refused_and_both_are_named(make: Make) -> None:
    other = replace(HELLO, version=97)
    async with running(make("alice", other), make("bob", HELLO)) as (alice, bob):
        with pytest.raises(RemoteError, match="version") as caught:
            await alice.dial(bob)
        assert "97" in str(caught.value)
        assert str(PROTOCOL_VERSION) in str(caught.value).replace("97", "")
        assert not alice.seen.connections
        assert not bob.seen.connections


async def messages_arrive_once_and_in_order(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        await bob.seen.until(lambda seen: bool(seen.connections))
        messages = [bytes([n]) * (n * 7 % 400) for n in range(200)]
        for message in messages:
            assert alice.transport.send(bob.peer, message)
            assert bob.transport.send(alice.peer, message[::-1])
        await alice.seen.until(lambda seen: len(seen.messages) >= len(messages))
        await bob.seen.until(lambda seen: len(seen.messages) >= len(messages))
        assert alice.seen.messages == bob.seen.messages == messages


async def patient_messages_arrive_in_order_and_without_others(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        for number in range(10):
            assert alice.transport.send(bob.peer, bytes([number]), patient=number not in (3, 6))
        await bob.seen.until(lambda seen: len(seen.messages) >= 10)
        assert bob.seen.messages == [bytes([number]) for number in range(10)]


async def a_full_queue_drops_messages_and_says_so(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        sent = 0
        while alice.transport.send(bob.peer, sent.to_bytes(2048)):
            sent += 1
            assert sent < 100_000
        await bob.seen.until(lambda seen: len(seen.messages) >= sent)
        assert bob.seen.messages == [n.to_bytes(2048) for n in range(sent)]
        assert not alice.seen.disconnections


async def nothing_is_sent_without_a_link(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        assert not alice.transport.send(bob.peer, b"message")
        with pytest.raises(UnreachableError):
            await alice.transport.request(bob.peer, b"", limit_bytes=LIMIT_BYTES)


async def requests_are_answered_in_both_directions(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        for asker, answerer in ((alice, bob), (bob, alice)):
            for request in (b"", b"short", bytes(16_000)):
                await asker.seen.until(lambda seen: bool(seen.connections))
                response = await asker.transport.request(
                    answerer.peer, request, limit_bytes=LIMIT_BYTES
                )
                assert response == request + b"!"


async def a_refusal_brings_its_text(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        with pytest.raises(RemoteError, match="not for you"):
            await alice.transport.request(bob.peer, b"refuse", limit_bytes=LIMIT_BYTES)
        assert await alice.transport.request(bob.peer, b"", limit_bytes=1) == b"!"


async def i08_a_response_beyond_the_limit_is_not_taken(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        request = bytes(1000)
        with pytest.raises(RemoteError, match="1000"):
            await alice.transport.request(bob.peer, request, limit_bytes=1000)
        response = await alice.transport.request(bob.peer, request, limit_bytes=1001)
        assert response == request + b"!"


async def a_request_to_a_peer_that_goes_away_fails(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(UnreachableError):
                    await alice.transport.request(bob.peer, b"never", limit_bytes=LIMIT_BYTES)

            nursery.start_soon(ask)
            await bob.seen.until(lambda seen: seen.answering == 1)
            await bob.stop()
        assert bob.seen.answering == 0


async def a_request_given_up_is_given_up_on_the_other_side(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        ask = partial(alice.transport.request, bob.peer, b"never", limit_bytes=LIMIT_BYTES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await bob.seen.until(lambda seen: seen.answering == 1)
            nursery.cancel_scope.cancel()
        await bob.seen.until(lambda seen: seen.answering == 0)
        assert await alice.transport.request(bob.peer, b"", limit_bytes=1) == b"!"


async def two_that_dial_each_other_at_once_get_one_link(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        found: list[Link] = []

        async def dial(one: Node, other: Node) -> None:
            found.append(await one.dial(other))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(dial, alice, bob)
            nursery.start_soon(dial, bob, alice)
        assert {link.peer for link in found} == {alice.peer, bob.peer}
        for node, other in ((alice, bob), (bob, alice)):
            assert [link.peer for link in node.transport.links()] == [other.peer]
            assert node.transport.send(other.peer, b"still here")
        for node in (alice, bob):
            await node.seen.until(lambda seen: seen.messages == [b"still here"])
            assert len(node.seen.connections) == 1
            assert not node.seen.disconnections
        assert alice.transport.links()[0].dialled != bob.transport.links()[0].dialled


async def a_disconnect_is_told_once_on_each_side_with_its_reason(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        await bob.seen.until(lambda seen: bool(seen.connections))
        alice.transport.disconnect(bob.peer, "key revoked")
        alice.transport.disconnect(bob.peer, "again")
        assert not alice.transport.send(bob.peer, b"")
        for node in (alice, bob):
            await node.seen.until(lambda seen: bool(seen.disconnections))
            assert node.seen.disconnections == [(node.seen.connections[0], "key revoked")]
            assert node.transport.links() == ()


async def a_disconnected_peer_can_be_dialled_again(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        for times in (1, 2, 3):
            await alice.dial(bob)
            await bob.seen.until(lambda seen, n=times: len(seen.connections) == n)  # type: ignore[misc]
            assert await alice.transport.request(bob.peer, b"", limit_bytes=1) == b"!"
            alice.transport.disconnect(bob.peer, "for now")
            await bob.seen.until(lambda seen, n=times: len(seen.disconnections) == n)  # type: ignore[misc]
        assert len(alice.seen.disconnections) == 3


async def stopping_closes_every_link(make: Make) -> None:
    async with running(*(make(name, HELLO) for name in "abc")) as (hub, *others):
        for other in others:
            await hub.dial(other)
            await other.seen.until(lambda seen: bool(seen.connections))
        await hub.stop()
        assert hub.transport.links() == ()
        assert len(hub.seen.disconnections) == len(others)
        for other in others:
            await other.seen.until(lambda seen: bool(seen.disconnections))
            assert other.transport.links() == ()
            assert len(other.seen.disconnections) == 1


async def what_was_sent_before_draining_arrives_though_the_transport_stops(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        await bob.seen.until(lambda seen: bool(seen.connections))
        sent = [bytes([n]) * 50_000 for n in range(8)]
        for message in sent:
            assert alice.transport.send(bob.peer, message)
        assert alice.transport.send(bob.peer, b"patient", patient=True)
        await alice.transport.drain()
        await alice.stop()
        await bob.seen.until(lambda seen: bool(seen.disconnections))
        assert bob.seen.messages == [*sent, b"patient"]
        await bob.transport.drain()  # nobody to wait for


async def a_peer_that_comes_back_is_linked_anew(make: Make) -> None:
    async with running(*pair(make)) as (alice, bob):
        await alice.dial(bob)
        await bob.seen.until(lambda seen: bool(seen.connections))
        await alice.stop()
        async with running(make("alice", HELLO)) as (again,):
            assert again.peer == alice.peer
            await again.dial(bob)
            await bob.seen.until(lambda seen: len(seen.connections) == 2)
            assert len(bob.seen.disconnections) == 1
            assert await again.transport.request(bob.peer, b"", limit_bytes=1) == b"!"


CONTRACT = (
    a_link_is_known_on_both_sides,
    links_are_sorted_by_peer,
    connecting_again_returns_the_link_that_exists,
    a_peer_need_not_be_named,
    another_peer_than_expected_is_refused,
    a_node_does_not_connect_to_itself,
    another_network_is_refused_and_both_are_named,
    another_version_is_refused_and_both_are_named,
    messages_arrive_once_and_in_order,
    patient_messages_arrive_in_order_and_without_others,
    a_full_queue_drops_messages_and_says_so,
    nothing_is_sent_without_a_link,
    requests_are_answered_in_both_directions,
    a_refusal_brings_its_text,
    i08_a_response_beyond_the_limit_is_not_taken,
    a_request_to_a_peer_that_goes_away_fails,
    a_request_given_up_is_given_up_on_the_other_side,
    two_that_dial_each_other_at_once_get_one_link,
    a_disconnect_is_told_once_on_each_side_with_its_reason,
    a_disconnected_peer_can_be_dialled_again,
    stopping_closes_every_link,
    what_was_sent_before_draining_arrives_though_the_transport_stops,
    a_peer_that_comes_back_is_linked_anew,
)
