import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import (
    QuicPacketType,
    QuicProtocolVersion,
    encode_quic_version_negotiation,
)
from hypothesis import given
from hypothesis import strategies as st

from p2pd.io.overlay.doorman import Caller, Doorman, read_header

ADDRESS = ("192.0.2.1", 4433)


def first_datagram(version: int = QuicProtocolVersion.VERSION_1) -> tuple[bytes, QuicConnection]:
    client = QuicConnection(configuration=QuicConfiguration(original_version=version))
    client.connect(("192.0.2.2", 1), 0.0)
    return client.datagrams_to_send(0.0)[0][0], client


def test_a_first_packet_opens_a_connection() -> None:
    data, client = first_datagram()
    caller = Doorman().examine(data, ADDRESS, 0.0, retry=False)
    destination = client.original_destination_connection_id
    assert caller == Caller(destination, destination, None)


def test_i09_a_caller_that_is_told_to_retry_comes_back_with_a_token_that_is_taken() -> None:
    doorman = Doorman()
    data, client = first_datagram()
    reply = doorman.examine(data, ADDRESS, 0.0, retry=True)
    assert isinstance(reply, bytes)
    header = read_header(reply)
    assert header is not None
    assert header.packet_type == QuicPacketType.RETRY
    client.receive_datagram(reply, ("192.0.2.2", 1), 0.1)
    again = client.datagrams_to_send(0.1)[0][0]
    original = client.original_destination_connection_id
    for retry in (True, False):
        caller = doorman.examine(again, ADDRESS, 0.2, retry=retry)
        assert caller == Caller(header.source_cid, original, header.source_cid)


@pytest.mark.parametrize(
    ("address", "now_s"), [(("192.0.2.9", 4433), 0.2), (("192.0.2.1", 4434), 0.2), (ADDRESS, 60.0)]
)
def test_i09_a_token_is_good_for_one_address_and_a_short_time(
    address: tuple[str, int], now_s: float
) -> None:
    doorman = Doorman()
    data, client = first_datagram()
    reply = doorman.examine(data, ADDRESS, 0.0, retry=True)
    assert isinstance(reply, bytes)
    client.receive_datagram(reply, ("192.0.2.2", 1), 0.1)
    again = client.datagrams_to_send(0.1)[0][0]
    assert doorman.examine(again, address, now_s, retry=True) is None


def test_a_token_of_another_node_is_not_taken() -> None:
    data, client = first_datagram()
    reply = Doorman().examine(data, ADDRESS, 0.0, retry=True)
    assert isinstance(reply, bytes)
    client.receive_datagram(reply, ("192.0.2.2", 1), 0.1)
    again = client.datagrams_to_send(0.1)[0][0]
    assert Doorman().examine(again, ADDRESS, 0.2, retry=False) is None


def test_another_version_is_told_which_one_works() -> None:
    data, _ = first_datagram(QuicProtocolVersion.VERSION_2)
    reply = Doorman().examine(data, ADDRESS, 0.0, retry=False)
    assert isinstance(reply, bytes)
    header = read_header(reply)
    assert header is not None
    assert header.packet_type == QuicPacketType.VERSION_NEGOTIATION
    assert header.supported_versions == [QuicProtocolVersion.VERSION_1]


def test_version_negotiation_is_never_answered() -> None:
    packet = encode_quic_version_negotiation(
        source_cid=bytes(8), destination_cid=bytes(8), supported_versions=[1] * 400
    )
    assert len(packet) > 1200
    assert Doorman().examine(packet, ADDRESS, 0.0, retry=False) is None


def test_i09_a_datagram_too_small_to_open_a_connection_is_not_answered() -> None:
    for version in (QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2):
        data, _ = first_datagram(version)
        assert Doorman().examine(data[:1199], ADDRESS, 0.0, retry=False) is None


@given(st.binary(max_size=64))
def test_i08_any_bytes_are_answered_or_dropped(head: bytes) -> None:
    data = head + bytes(1200)
    verdict = Doorman().examine(data, ADDRESS, 0.0, retry=True)
    assert verdict is None or len(verdict if isinstance(verdict, bytes) else b"") <= len(data)
