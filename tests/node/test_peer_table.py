from random import Random

import pytest

from p2pd.core.hello import PeerRecord
from p2pd.core.ids import NetworkId, PeerId
from p2pd.core.signed import Signed
from p2pd.errors import RemoteError
from p2pd.io.keys import Ed25519Signer
from p2pd.node.peer_table import (
    FORGET_MS,
    FRESH_MS,
    FUTURE_MS,
    KIND,
    Freshness,
    PeerTable,
    freshness,
    is_loopback,
    record_scope,
    split_address,
)
from p2pd.wire.envelope import dump, seal

NETWORK = NetworkId(b"n" * 32)
OWN = PeerId(bytes(32))
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


def record(number: int, issued_at_ms: int, address: str = "10.0.0.1:1") -> Signed[PeerRecord]:
    signer = Ed25519Signer(number.to_bytes(32))
    return seal(signer, KIND, record_scope(NETWORK), PeerRecord(address, (), issued_at_ms))


def test_i09_the_oldest_records_of_unlinked_peers_make_room() -> None:
    table = PeerTable(OWN, NETWORK, peers_max=3)
    records = [record(n, NOW_MS - n) for n in range(1, 7)]
    for signed in records:
        assert table.take(signed, dump(signed), NOW_MS)
        assert not table.take(signed, dump(signed), NOW_MS)
    table.unsaved()
    table.make_room(frozenset({records[5].signer}), NOW_MS)
    assert set(table.peers()) == {records[n].signer for n in (0, 1, 5)}
    assert [table.holds(dump(signed)) for signed in records] == [1, 1, 0, 0, 0, 1]
    assert {(write.key, write.value) for write in table.unsaved()} == {
        (records[n].signer, None) for n in (2, 3, 4)
    }
    assert table.unsaved() == []


def test_a_record_is_forgotten_after_weeks() -> None:
    table = PeerTable(OWN, NETWORK)
    signed = record(1, NOW_MS)
    table.take(signed, dump(signed), NOW_MS)
    table.make_room(frozenset(), NOW_MS + FORGET_MS - 1)
    assert table.peers() == (signed.signer,)
    table.make_room(frozenset(), NOW_MS + FORGET_MS)
    assert table.peers() == ()
    table.restore(signed, dump(signed), NOW_MS + FORGET_MS)
    assert table.peers() == ()
    table.restore(signed, dump(signed), NOW_MS + FORGET_MS - 1)
    assert table.peers() == (signed.signer,)
    assert table.sample(Random(0), 9, NOW_MS + FORGET_MS - 1, nearby=True) == ()


def test_a_loopback_address_is_taken_from_and_told_to_this_machine_only() -> None:
    table = PeerTable(OWN, NETWORK)
    signed = record(1, NOW_MS, "127.0.0.1:5")
    assert not table.take(signed, dump(signed), NOW_MS)
    assert table.take(signed, dump(signed), NOW_MS, nearby=True)
    assert table.sample(Random(0), 9, NOW_MS, nearby=False) == ()
    assert table.sample(Random(0), 9, NOW_MS, nearby=True) == (dump(signed),)
    moved = record(1, NOW_MS + 1, "10.0.0.1:5")
    assert table.take(moved, dump(moved), NOW_MS)
    assert table.sample(Random(0), 9, NOW_MS, nearby=False) == (dump(moved),)


def test_a_node_has_no_record_of_itself() -> None:
    signed = record(1, NOW_MS)
    table = PeerTable(signed.signer, NETWORK)
    assert not table.take(signed, dump(signed), NOW_MS)
    assert table.peers() == ()
