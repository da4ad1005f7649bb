import pytest

from p2pd.errors import RemoteError
from p2pd.node.peer_table import (
    FRESH_MS,
    FUTURE_MS,
    Freshness,
    freshness,
    is_loopback,
    split_address,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("issued_at_ms", "expected"),
    [
        (NOW_MS, Freshness.FRESH),
        (NOW_MS - FRESH_MS + 1, Freshness.FRESH),
        (NOW_MS - FRESH_MS, Freshness.STALE),
        (0, Freshness.STALE),
        (-(2**63), Freshness.STALE),
        (NOW_MS + FUTURE_MS, Freshness.FRESH),
        (NOW_MS + FUTURE_MS + 1, Freshness.FUTURE),
    ],
)
def test_a_record_is_fresh_for_an_hour_and_clocks_may_differ_by_minutes(
    issued_at_ms: int, expected: Freshness
) -> None:
    assert freshness(issued_at_ms, NOW_MS) is expected


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1:7000", ("10.0.0.1", 7000)),
        ("[2001:db8::1]:1", ("2001:db8::1", 1)),
        ("seed.example.org:65535", ("seed.example.org", 65535)),
    ],
)
def test_addresses_have_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":1",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:-1",
        "host:٣",
        "h" * 260 + ":1",
        "host:" + "1" * 5000,
    ],
)
def test_what_cannot_be_dialled_is_refused(address: str) -> None:
    with pytest.raises(RemoteError, match="not host:port"):
        split_address(address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1", True),
        ("127.3.4.5:1", True),
        ("[::1]:1", True),
        ("[::]:1", True),
        ("0.0.0.0:1", True),
        ("localhost:1", True),
        ("[::ffff:127.0.0.1]:1", True),
        ("10.0.0.1:1", False),
        ("seed.example.org:1", False),
    ],
)
def test_loopback_addresses_are_known_in_all_their_forms(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
