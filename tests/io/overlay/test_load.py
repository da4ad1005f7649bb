"""Requests by the hundred, big ones, and the control lane beside them."""

import logging

import pytest
import trio

from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.overlay import OverlaySettings, QuicTransport
from tests.io.overlay.bench import PATTERN, SETTINGS, serve, transport
from tests.ports.transport_contract import Node, running, start


def test_requests_by_the_hundred_one_after_the_other() -> None:
    async def main() -> None:
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            await alice.dial(bob)
            for number in range(300):
                request = number.to_bytes(2)
                assert (
                    await alice.transport.request(bob.peer, request, limit_bytes=3)
                    == request + b"!"
                )

    trio.run(main)


def test_requests_by_the_hundred_at_once_are_answered_a_few_at_a_time() -> None:
    async def main() -> None:
        small = OverlaySettings(requests_per_peer=4)
        nodes = [transport("alice"), transport("bob", settings=small)]
        async with running(*nodes) as (alice, bob):
            server = serve(bob)
            await alice.dial(bob)
            await bob.seen.until(lambda seen: bool(seen.connections))
            done = []

            async def ask(one: Node, other: Node, count: int) -> None:
                request = str(count * len(PATTERN)).encode()
                response = await one.transport.request(other.peer, request, limit_bytes=2**20)
                done.append(response == PATTERN * count)

            async with trio.open_nursery() as nursery:
                for number in range(200):
                    nursery.start_soon(ask, alice, bob, number)
            assert done == [True] * 200
            assert server.most == 4

    trio.run(main)


def test_requests_given_up_by_the_hundred_leave_room_for_others() -> None:
    async def main() -> None:
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            await alice.dial(bob)
            for _ in range(10):
                async with trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(ask_for_ever, alice, bob)
                    await bob.seen.until(lambda seen: seen.answering == SETTINGS.requests_per_peer)
                    nursery.cancel_scope.cancel()
                await bob.seen.until(lambda seen: seen.answering == 0)
            assert await alice.transport.request(bob.peer, b"", limit_bytes=1) == b"!"
            assert not alice.seen.disconnections

    trio.run(main)


async def ask_for_ever(alice: Node, bob: Node) -> None:
    await alice.transport.request(bob.peer, b"never", limit_bytes=1)


def test_a_node_that_stops_amid_requests_stops_cleanly() -> None:
    async def main() -> None:
        async with running(transport("alice")) as (alice,), trio.open_nursery() as nursery:

            async def ask(bob: Node, request: bytes) -> None:
                while True:
                    await alice.transport.request(bob.peer, request, limit_bytes=1)

            async def fail(bob: Node, request: bytes) -> None:
                with pytest.raises(UnreachableError):
                    await ask(bob, request)

            for _ in range(10):
                bob = await start(nursery, transport("bob"))
                await alice.dial(bob)
                async with trio.open_nursery() as asking:
                    for request in (b"", b"", b"", b"", b"never"):
                        asking.start_soon(fail, bob, request)
                    await bob.seen.until(lambda seen: seen.answering > 0)
                    await bob.stop()
                assert bob.seen.answering == 0
            assert alice.transport.links() == ()

    trio.run(main)


def test_control_messages_overtake_a_big_response() -> None:
    async def main() -> None:
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            serve(bob)
            await alice.dial(bob)
            size = 64_000 * len(PATTERN)
            response = b""

            async def bulk() -> None:
                nonlocal response
                request = str(size).encode()
                response = await alice.transport.request(bob.peer, request, limit_bytes=size)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(bulk)
                await carries(alice, bob, 2**20)
                # Each goes there and back again before the next, all while the bulk is under way.
                for turn in range(5):
                    assert alice.transport.send(bob.peer, bytes([turn]))
                    await bob.seen.until(lambda seen, n=turn: len(seen.messages) == n + 1)  # type: ignore[misc]
                    assert bob.transport.send(alice.peer, bytes([turn]))
                    await alice.seen.until(lambda seen, n=turn: len(seen.messages) == n + 1)  # type: ignore[misc]
                assert not response
            assert response == PATTERN * 64_000

    trio.run(main)


async def carries(alice: Node, bob: Node, count: int) -> None:
    """Returns when alice has received so many bytes from bob."""
    transport = alice.transport
    assert isinstance(transport, QuicTransport)
    while transport.counters()[bob.peer].received_bytes < count:
        await trio.lowlevel.checkpoint()


def test_both_sides_count_what_a_link_carries() -> None:
    async def main() -> None:
        nodes = [transport("alice"), transport("bob")]
        async with running(*nodes) as (alice, bob):
            serve(bob)
            await alice.dial(bob)
            await alice.transport.request(bob.peer, b"251000", limit_bytes=2**20)
            here, there = nodes[0].counters()[bob.peer], nodes[1].counters()[alice.peer]
            assert 251_000 < here.received_bytes <= there.sent_bytes < 400_000
            assert 2_000 < there.received_bytes <= here.sent_bytes < 100_000

    trio.run(main)


def test_i08_a_request_beyond_the_limit_is_refused() -> None:
    async def main() -> None:
        small = OverlaySettings(request_bytes=1000)
        async with running(transport("alice"), transport("bob", settings=small)) as (alice, bob):
            await alice.dial(bob)
            for size in (1001, 2**20):
                with pytest.raises(RemoteError, match="request exceeds 1000 bytes"):
                    await alice.transport.request(bob.peer, bytes(size), limit_bytes=2**21)
            response = await alice.transport.request(bob.peer, bytes(1000), limit_bytes=2000)
            assert response == bytes(1000) + b"!"

    trio.run(main)


def test_i09_a_mistake_in_a_handler_is_logged_once_and_its_text_stays_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            serve(bob)
            await alice.dial(bob)
            for request in (b"broken", b"broken", b"elsewhere", b"broken"):
                with pytest.raises(RemoteError, match=r"^refused: internal error$"):
                    await alice.transport.request(bob.peer, request, limit_bytes=1)
            assert await alice.transport.request(bob.peer, b"0", limit_bytes=1) == b""

    with caplog.at_level(logging.ERROR):
        trio.run(main)
    kinds = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert kinds == [ZeroDivisionError, UnreachableError]
