from typing import Any

import pytest

from p2pd.io.overlay import OverlaySettings
from p2pd.io.overlay.settings import join_address, split_address


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listen", "127.0.0.1"),
        ("listen", "::1:7000"),
        ("listen", ":7000"),
        ("listen", "[127.0.0.1]:7000"),
        ("listen", "host:65536"),
        ("listen", "host:-1"),
        ("listen", "host:٣"),
        ("advertise", "0.0.0.0:7000"),
        ("advertise", "[::]:7000"),
        ("advertise", "example.org:0"),
        ("datagram_bytes", 1199),
        ("datagram_bytes", 16_001),
        ("idle_s", 0.0),
        ("keep_alive_s", 20.5),
        ("requests_per_peer", 0),
        ("control_bytes", 2**20 + 3),
        ("connection_window_bytes", 2**20),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^overlay\.{key} must "):
        OverlaySettings(**{key: value})


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:7000", "::1", 7000),
        ("example.org:65535", "example.org", 65535),
    ],
)
def test_an_address_is_split_and_joined_again(text: str, host: str, port: int) -> None:
    assert split_address(text, "address") == (host, port)
    assert join_address(host, port) == text


def test_an_ipv4_address_seen_through_ipv6_is_written_as_ipv4() -> None:
    assert join_address("::ffff:192.0.2.1", 7000) == "192.0.2.1:7000"
