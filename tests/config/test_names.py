import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.config.names import (
    Seed,
    check_source,
    check_url,
    parse_address,
    parse_peer_id,
    parse_public_key,
    parse_seed,
)
from p2pd.core.ids import PeerId
from p2pd.errors import UsageError


@given(st.binary(min_size=32, max_size=32))
def test_ids_and_keys_are_read_back_from_their_hex(value: bytes) -> None:
    assert parse_peer_id(value.hex()) == value
    assert parse_public_key(value.hex()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ab" * 31, "must have 64 hex digits, got 62"),
        ("", "must have 64 hex digits, got 0"),
        ("AB" * 32, "lowercase hex digits only"),
        ("zz" * 32, "lowercase hex digits only"),
        ("ab" * 32 + "\n", "lowercase hex digits only"),
    ],
)
def test_what_is_no_id_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"^peer id .*{why}"):
        parse_peer_id(text)
    with pytest.raises(UsageError, match=f"^public key .*{why}"):
        parse_public_key(text)


def test_a_seed_is_an_address_with_or_without_a_peer() -> None:
    assert parse_seed("example.org:4700") == Seed(None, "example.org:4700")
    peer = PeerId(b"\x07" * 32)
    assert parse_seed(f"{peer.hex()}@[::1]:4700") == Seed(peer, "[::1]:4700")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("node-1.example.org:65535", "node-1.example.org", 65535),
        ("[2001:db8::7]:4700", "2001:db8::7", 4700),
    ],
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":1", "host:x", "::1:4700", "a b:1", "quic://a:1", "a:123456", "a:1\n"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not host:port"):
        parse_address(text)


def test_a_port_beyond_the_last_is_refused() -> None:
    with pytest.raises(UsageError, match="port 65536 is beyond 65535"):
        parse_address("host:65536")


@given(st.text())
def test_any_text_gives_a_seed_or_a_usage_error(text: str) -> None:
    try:
        seed = parse_seed(text)
    except UsageError:
        return
    assert parse_seed(seed.address).address == seed.address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host/x",
        "http://",
        "http://host:port/",
        "http://host:99999/",
        "http://h/ x",
        "//h",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no URL"):
        check_url(url)


def test_a_source_of_data_is_a_url_or_an_absolute_path() -> None:
    for name in ("/srv/set", "https://host/set", "http://host:8000/list.json", "s3://bucket/set"):
        check_source(name)
    for name in ("set", "", "./set", "http://", "https://host:0x/"):
        with pytest.raises(UsageError):
            check_source(name)
