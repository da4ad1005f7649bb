from collections.abc import Awaitable, Callable

import pytest
import trio

from p2pd.core.hello import Hello
from p2pd.io.overlay import OverlaySettings, QuicTransport
from tests.io.overlay.bench import transport
from tests.ports.transport_contract import CONTRACT, Make


def make(name: str, hello: Hello) -> QuicTransport:
    return transport(name, hello)


def make_big(name: str, hello: Hello) -> QuicTransport:
    return transport(name, hello, OverlaySettings(listen="[::1]:0", datagram_bytes=16_000))


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [make, make_big], ids=["ipv4_1200", "ipv6_16000"])
def test_the_quic_transport_keeps_the_contract(
    check: Callable[[Make], Awaitable[None]], make: Make
) -> None:
    trio.run(check, make)
