"""What callers can do to a node that do not keep the protocol."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import trio

from p2pd.core.encoding import encode
from p2pd.core.ids import NetworkId
from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.overlay import OverlaySettings, QuicTransport
from p2pd.io.overlay._aioquic172 import Quic
from p2pd.io.overlay.connection import CloseCode
from p2pd.io.overlay.doorman import read_header
from p2pd.io.overlay.framing import encode_hello, frame
from tests.io.overlay.bench import Relay, identity, stranger, transport, udp
from tests.ports.transport_contract import HELLO, running

Script = Callable[[Quic], None]
GREETING = frame(encode_hello(HELLO))


def says(data: bytes, *, end: bool = False) -> Script:
    return lambda quic: quic.send_stream_data(0, data, end_stream=end)


def asks_first(quic: Quic) -> None:
    quic.send_stream_data(4, b"request", end_stream=True)


def resets_control(quic: Quic) -> None:
    quic.send_stream_data(0, GREETING)
    quic.reset_stream(0, 0)


def says_nothing(quic: Quic) -> None:
    pass


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (says(frame(b"rubbish")), "hello cannot be read"),
        (says(frame(encode((2, "whatever")))), "protocol version 2"),
        (says(frame(encode_hello(replace(HELLO, network=NetworkId(b"m" * 32))))), "network"),
        (says((2**24).to_bytes(4)), "exceeds the limit of 4096"),
        (says(GREETING + frame(b"message")), "before the hello was answered"),
        (says(GREETING, end=True), "control lane"),
        (resets_control, "control lane"),
        (asks_first, "before the hello was answered"),
        (says_nothing, "took too long"),
    ],
)
def test_a_caller_that_breaks_the_protocol_is_told_why_and_refused(
    script: Script, reason: str
) -> None:
    async def main() -> None:
        settings = OverlaySettings(handshake_s=0.5 if script is says_nothing else 10.0)
        async with running(transport("alice", settings=settings)) as (alice,):
            ending = await stranger(alice.transport.address, script)
            assert ending.error_code == CloseCode.REFUSED
            assert reason in ending.reason_phrase
            assert not alice.seen.connections
            assert alice.transport.links() == ()

    trio.run(main)


def test_a_caller_without_a_certificate_is_refused() -> None:
    async def main() -> None:
        async with running(transport("alice")) as (alice,):
            ending = await stranger(alice.transport.address, says(GREETING), anonymous=True)
            assert ending.error_code == CloseCode.REFUSED
            assert "no certificate" in ending.reason_phrase
            assert not alice.seen.connections

    trio.run(main)


def test_i09_garbage_does_not_disturb_a_link() -> None:
    async def main() -> None:
        draw = random.Random(5)
        async with running(transport("alice"), transport("bob")) as (alice, bob):
            await alice.dial(bob)
            host, _, port = bob.transport.address.rpartition(":")
            with udp() as sock:
                for size in (0, 1, 8, 9, 20, 100, 1199, 1200, 1500, 9000) * 20:
                    data = draw.randbytes(size)
                    for first in (data[:1], b"\xc0", b"\x40"):
                        version = b"\0\0\0\x01" if draw.random() < 0.5 else data[1:5]
                        await sock.sendto(first + version + data[5:], (host, int(port)))
            assert await alice.transport.request(bob.peer, b"still", limit_bytes=6) == b"still!"
            assert not alice.seen.disconnections
            assert len(bob.transport.links()) == 1

    trio.run(main)


def test_i09_callers_beyond_the_limit_must_prove_their_address() -> None:
    async def main() -> None:
        settings = OverlaySettings(half_open_retry=1)
        async with (
            running(transport("alice"), transport("bob", settings=settings)) as (alice, bob),
            trio.open_nursery() as nursery,
        ):
            secured = trio.Event()
            nursery.start_soon(stranger, bob.transport.address, lambda _: secured.set())
            await secured.wait()
            kinds = set()

            async def watch(data: bytes, forward: bool) -> bool:
                header = read_header(data)
                if header is not None and not forward:
                    kinds.add(header.packet_type.name)
                return True

            relay = Relay(bob.transport.address)
            relay.gate = watch
            await nursery.start(relay.run)
            await alice.transport.connect(relay.address, bob.peer)
            assert "RETRY" in kinds
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_i09_callers_beyond_the_cap_are_not_heard() -> None:
    async def main() -> None:
        settings = OverlaySettings(half_open_max=1, dial_s=0.3)
        async with (
            running(*(transport(name, settings=settings) for name in ("alice", "bob"))) as nodes,
            trio.open_nursery() as nursery,
        ):
            alice, bob = nodes
            secured = trio.Event()
            nursery.start_soon(stranger, bob.transport.address, lambda _: secured.set())
            await secured.wait()
            with pytest.raises(UnreachableError, match="did not answer"):
                await alice.dial(bob)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_many_dials_at_once_all_get_through_a_low_cap() -> None:
    async def main() -> None:
        settings = OverlaySettings(half_open_max=4, half_open_retry=2)
        names = [f"node {number}" for number in range(12)]
        hub_transport = transport("hub", settings=settings)
        async with running(hub_transport, *map(transport, names)) as (hub, *others):
            async with trio.open_nursery() as nursery:
                for other in others:
                    nursery.start_soon(other.dial, hub)
            assert len(hub.transport.links()) == len(others)

    trio.run(main)


def test_a_full_node_refuses_and_says_so() -> None:
    async def main() -> None:
        full = transport("full", settings=OverlaySettings(peers_max=1))
        async with running(full, transport("alice"), transport("bob")) as (hub, alice, bob):
            await alice.dial(hub)
            with pytest.raises(RemoteError, match="all 1 places"):
                await bob.dial(hub)
            assert [link.peer for link in hub.transport.links()] == [alice.peer]

    trio.run(main)


@pytest.mark.parametrize("members", [(), ("member",)])
def test_i09_strangers_do_not_take_the_places_of_members(members: tuple[str, ...]) -> None:
    async def main() -> None:
        full = QuicTransport(
            OverlaySettings(peers_max=8),
            identity("full"),
            lambda address: replace(HELLO, address=address),
            frozenset(identity(name).peer for name in members),
        )
        strangers = [transport(f"stranger {n}") for n in range(8)]
        async with running(full, transport("member"), *strangers) as (hub, member, *others):
            for other in others[:7]:
                await other.dial(hub)
            if members:
                with pytest.raises(RemoteError, match="all 7 places"):
                    await others[7].dial(hub)
                await member.dial(hub)
            else:
                await others[7].dial(hub)
                with pytest.raises(RemoteError, match="all 8 places"):
                    await member.dial(hub)

    trio.run(main)


def test_the_private_key_is_not_shown() -> None:
    assert identity("alice").seed.hex() not in repr(identity("alice"))
    assert repr(identity("alice").seed) not in repr(identity("alice"))
