import random
from dataclasses import replace
from functools import partial

import pytest
import trio

from p2pd.core.hello import Hello
from p2pd.errors import LocalError, RemoteError, UnreachableError, UsageError
from p2pd.io.overlay import OverlaySettings, QuicTransport
from tests.io.overlay.bench import PATTERN, Relay, identity, nothing, serve, transport, udp
from tests.ports.transport_contract import HELLO, Node, running, start


def test_a_dial_that_nobody_answers_is_given_up() -> None:
    async def main() -> None:
        with udp() as silent:
            await silent.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            async with running(transport("alice", settings=OverlaySettings(dial_s=0.3))) as (
                alice,
            ):
                with pytest.raises(UnreachableError, match=f"{address} did not answer"):
                    await alice.transport.connect(address, None)

    trio.run(main)


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("nonsense", RemoteError),
        ("127.0.0.1:0", RemoteError),
        ("0.0.0.0:7000", RemoteError),
        ("[::1]:7000", UnreachableError),
        ("no-such-host.invalid:7000", UnreachableError),
    ],
)
def test_an_address_that_names_no_node_is_refused(address: str, error: type[Exception]) -> None:
    async def main() -> None:
        async with running(transport("alice")) as (alice,):
            with pytest.raises(error):
                await alice.transport.connect(address, None)

    trio.run(main)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (OverlaySettings(listen="0.0.0.0:0"), ""),
        (OverlaySettings(listen="[::]:0"), ""),
        (OverlaySettings(listen="0.0.0.0:0", advertise="example.org:7000"), "example.org:7000"),
    ],
)
def test_an_address_that_nobody_can_dial_is_not_told(
    settings: OverlaySettings, address: str
) -> None:
    async def main() -> None:
        async with running(transport("alice", settings=settings), transport("bob")) as (alice, bob):
            assert alice.transport.address == address
            await alice.dial(bob)
            await bob.seen.until(lambda seen: bool(seen.connections))
            assert bob.seen.connections[0].hello.address == address

    trio.run(main)


def test_a_node_on_all_addresses_is_reached_over_ipv4_and_ipv6() -> None:
    async def main() -> None:
        both = transport("both", settings=OverlaySettings(listen="[::]:0"))
        six = transport("six", settings=OverlaySettings(listen="[::1]:0"))
        async with running(both, transport("four"), six) as (all_, four, six_node):
            assert (await all_.dial(four)).remote == four.transport.address
            assert (await all_.dial(six_node)).remote == six_node.transport.address

    trio.run(main)


def test_a_port_that_is_taken_is_named() -> None:
    async def main() -> None:
        async with running(transport("alice")) as (alice,):
            listen = alice.transport.address
            second = transport("bob", settings=OverlaySettings(listen=listen))
            with pytest.raises(UsageError, match=f"overlay.listen {listen}"):
                await second.run(alice.seen)

    trio.run(main)


def test_misuse_is_a_local_error() -> None:
    async def main() -> None:
        idle = transport("idle")
        with pytest.raises(LocalError, match="not running"):
            await idle.connect("127.0.0.1:7000", None)
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            with pytest.raises(LocalError, match="once"):
                await alice.transport.run(alice.seen)
            await alice.dial(bob)
            with pytest.raises(LocalError, match="1048577 bytes"):
                alice.transport.send(bob.peer, bytes(2**20 + 1))
            assert alice.transport.send(bob.peer, bytes(2**20))
            await bob.seen.until(lambda seen: seen.messages == [bytes(2**20)])

    trio.run(main)


def test_many_dials_of_one_address_at_once_share_a_link() -> None:
    async def main() -> None:
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            async with trio.open_nursery() as nursery:
                for peer in (None, bob.peer) * 5:
                    nursery.start_soon(alice.transport.connect, bob.transport.address, peer)
                nursery.start_soon(
                    alice.transport.connect, f"localhost{bob.transport.address[9:]}", None
                )
            assert len(alice.seen.connections) == len(bob.transport.links()) == 1
            assert not bob.seen.disconnections

    trio.run(main)


def test_a_node_says_no_second_hello_to_a_peer_it_is_linked_to() -> None:
    async def main() -> None:
        said = 0

        def hello(address: str) -> Hello:
            nonlocal said
            said += 1
            return replace(HELLO, address=address)

        counting = QuicTransport(OverlaySettings(), identity("alice"), hello)
        async with (
            running(counting, transport("bob")) as (alice, bob),
            trio.open_nursery() as nursery,
        ):
            relay = Relay(bob.transport.address)
            await nursery.start(relay.run)
            async with trio.open_nursery() as dials:
                for address in (bob.transport.address, relay.address):
                    dials.start_soon(alice.transport.connect, address, None)
            await alice.transport.connect(relay.address, None)
            # Once to say it, once to compare it with bob's.
            assert said == 2
            assert len(alice.seen.connections) == 1
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_the_dial_of_the_smaller_peer_is_kept_when_both_cross() -> None:
    async def main() -> None:
        nodes = [transport("alice"), transport("bob")]
        async with running(*sorted(nodes, key=lambda node: node.peer)) as (small, great):
            crossed = trio.Event()
            forward = {small: 0, great: 0}
            async with trio.open_nursery() as nursery:
                for one, other in ((small, great), (great, small)):

                    async def gate(_: bytes, is_forward: bool, one: Node = one) -> bool:
                        forward[one] += is_forward
                        # The second datagram of a dialler carries its hello.
                        if min(forward.values()) >= 2:
                            crossed.set()
                        if is_forward and forward[one] >= 2:
                            await crossed.wait()
                        return True

                    relay = Relay(other.transport.address)
                    relay.gate = gate
                    await nursery.start(relay.run)
                    nursery.start_soon(one.transport.connect, relay.address, other.peer)
                for node in (small, great):
                    await node.seen.until(lambda seen: bool(seen.connections))
                await small.transport.request(great.peer, b"", limit_bytes=1)
                nursery.cancel_scope.cancel()
            for node, dialled in ((small, True), (great, False)):
                assert [link.dialled for link in node.transport.links()] == [dialled]
                assert len(node.seen.connections) == 1
                assert not node.seen.disconnections

    trio.run(main)


def test_both_dialling_again_and_again_over_a_bad_path_always_ends_in_one_link() -> None:
    async def main() -> None:
        draw = random.Random(7)

        async def lossy(_: bytes, __: bool) -> bool:
            return draw.random() > 0.15

        # A goodbye may get lost too; the next ping brings it back.
        settings = OverlaySettings(keep_alive_s=0.5)
        nodes = [transport(name, settings=settings) for name in ("alice", "bob")]
        async with running(*nodes) as (alice, bob):
            async with trio.open_nursery() as nursery:
                relays = {}
                for node in (alice, bob):
                    relays[node.peer] = Relay(node.transport.address)
                    relays[node.peer].gate = lossy
                    await nursery.start(relays[node.peer].run)
                for _ in range(8):
                    async with trio.open_nursery() as dials:
                        for one, other in ((alice, bob), (bob, alice)):
                            dials.start_soon(
                                one.transport.connect, relays[other.peer].address, other.peer
                            )
                    links = [*alice.transport.links(), *bob.transport.links()]
                    assert sorted(link.dialled for link in links) == [False, True]
                    alice.transport.disconnect(bob.peer, "next")
                    await bob.seen.until(
                        lambda seen: len(seen.connections) == len(seen.disconnections)
                    )
                nursery.cancel_scope.cancel()
            assert len(alice.seen.connections) == len(alice.seen.disconnections) == 8

    trio.run(main)


def test_a_dial_that_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            with trio.CancelScope() as scope:
                scope.cancel()
                await alice.dial(bob)
            async with trio.open_nursery() as nursery:
                relay = Relay(bob.transport.address)
                relay.gate = nothing
                await nursery.start(relay.run)
                with trio.move_on_after(0.05):
                    await alice.transport.connect(relay.address, bob.peer)
                nursery.cancel_scope.cancel()
            assert await alice.dial(bob) in alice.transport.links()
            assert len(alice.seen.connections) == 1

    trio.run(main)


def test_messages_written_at_once_share_a_datagram_and_do_not_wait_for_another() -> None:
    async def main() -> None:
        held, alice_is_quiet = trio.Event(), trio.Event()
        passed: list[int] = []

        async def count(data: bytes, forth: bool) -> bool:
            if forth and alice_is_quiet.is_set():
                passed.append(len(data))
            elif not forth and alice_is_quiet.is_set():
                await held.wait()  # nothing comes in at alice that could have her send
            return True

        async with (
            running(transport("alice"), transport("bob")) as (alice, bob),
            trio.open_nursery() as nursery,
        ):
            relay = Relay(bob.transport.address)
            relay.gate = count
            await nursery.start(relay.run)
            await alice.transport.connect(relay.address, bob.peer)
            alice.transport.send(bob.peer, b"first")
            await bob.seen.until(lambda seen: len(seen.messages) == 1)
            alice_is_quiet.set()
            for number in range(10):
                assert alice.transport.send(bob.peer, number.to_bytes(50))
            await bob.seen.until(lambda seen: len(seen.messages) == 11)
            assert max(passed) > 10 * 50
            held.set()
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_messages_and_requests_survive_loss_and_disorder() -> None:
    async def main() -> None:
        draw = random.Random(3)

        async def bad(_: bytes, __: bool) -> bool:
            return draw.random() > 0.1

        async with running(transport("alice"), transport("bob")) as (alice, bob):
            serve(bob)
            async with trio.open_nursery() as nursery:
                relay = Relay(bob.transport.address)
                relay.gate = bad
                await nursery.start(relay.run)
                await alice.transport.connect(relay.address, bob.peer)
                for number in range(100):
                    assert alice.transport.send(bob.peer, number.to_bytes(50))
                response = await alice.transport.request(bob.peer, b"251000", limit_bytes=2**20)
                assert response == PATTERN * 1000
                await bob.seen.until(lambda seen: len(seen.messages) == 100)
                assert bob.seen.messages == [number.to_bytes(50) for number in range(100)]
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_peer_that_falls_silent_is_noticed_by_its_missing_pings() -> None:
    async def main() -> None:
        nodes = [
            transport(name, settings=OverlaySettings(keep_alive_s=0.5)) for name in ("alice", "bob")
        ]
        async with running(*nodes) as (alice, bob), trio.open_nursery() as nursery:
            relay = Relay(bob.transport.address)
            await nursery.start(relay.run)
            await alice.transport.connect(relay.address, bob.peer)
            await bob.seen.until(lambda seen: bool(seen.connections))
            relay.gate = nothing
            with pytest.raises(UnreachableError, match="pings"):
                await alice.transport.request(bob.peer, b"never", limit_bytes=1)
            await bob.seen.until(lambda seen: bool(seen.disconnections))
            for node in (alice, bob):
                assert ["pings" in why for _, why in node.seen.disconnections] == [True]
                assert node.transport.links() == ()
            nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "dave"])
def test_a_peer_that_died_and_comes_back_replaces_its_dead_link(name: str) -> None:
    async def main() -> None:
        settings = OverlaySettings(probe_s=0.1)
        async with (
            running(transport("hub", settings=settings), transport(name)) as (hub, first),
            trio.open_nursery() as nursery,
        ):
            relay = Relay(hub.transport.address)
            await nursery.start(relay.run)
            await first.transport.connect(relay.address, hub.peer)
            await hub.seen.until(lambda seen: bool(seen.connections))
            relay.gate = nothing
            await first.stop()
            assert hub.transport.links()
            second = await start(nursery, transport(name))
            link = await second.dial(hub)
            assert link.dialled
            assert len(hub.seen.connections) == 2
            assert [lost for lost, _ in hub.seen.disconnections] == hub.seen.connections[:1]
            assert await second.transport.request(hub.peer, b"", limit_bytes=1) == b"!"
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_goodbye_that_was_lost_is_said_again() -> None:
    async def main() -> None:
        async with (
            running(transport("alice"), transport("bob")) as (alice, bob),
            trio.open_nursery() as nursery,
        ):
            serve(bob)
            relay = Relay(bob.transport.address)
            await nursery.start(relay.run)
            await alice.transport.connect(relay.address, bob.peer)
            ask = partial(alice.transport.request, bob.peer, b"33554432", limit_bytes=2**26)

            async def bulk() -> None:
                with pytest.raises(UnreachableError):
                    await ask()

            closed = lost = 0
            flowing = trio.Event()

            async def first_one_lost(_: bytes, forward: bool) -> bool:
                nonlocal lost
                if not forward:
                    flowing.set()
                elif closed and not lost:
                    lost = 1
                    return False
                return True

            relay.gate = first_one_lost
            nursery.start_soon(bulk)
            await flowing.wait()
            await bob.seen.until(lambda seen: bool(seen.connections))
            closed = 1
            alice.transport.disconnect(bob.peer, "enough")
            await bob.seen.until(lambda seen: bool(seen.disconnections))
            assert bob.seen.disconnections[0][1] == "enough"
            nursery.cancel_scope.cancel()
        assert lost == 1

    trio.run(main)
