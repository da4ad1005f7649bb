"""A QUIC machine for bytes to be thrown at, and first packets that it understands."""

from functools import cache

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicProtocolVersion

from p2pd.io.overlay._aioquic172 import Quic, configuration
from p2pd.io.overlay._aioquic172_in import CONNECTION_ID_BYTES
from p2pd.io.overlay.doorman import INITIAL_BYTES_MIN
from p2pd.io.overlay.identity import certificate
from tests.io.overlay.bench import LIMITS, identity

ADDRESS = ("127.0.0.1", 4701)
DESTINATION = bytes(CONNECTION_ID_BYTES)
TAG_BYTES = 16
PAYLOAD_BYTES_MAX = 8000
VERSION = QuicProtocolVersion.VERSION_1


@cache
def settings(*, dialling: bool) -> QuicConfiguration:
    who = identity("dialler" if dialling else "listener")
    return configuration(LIMITS, certificate(who), who.private_key, dialling=dialling)


def receive(data: bytes) -> None:
    """As a datagram, and as the frames in a packet whose protection holds."""
    for datagram in (data, sealed(data[:PAYLOAD_BYTES_MAX])):
        machine = Quic(
            limits=LIMITS,
            configuration=settings(dialling=False),
            original_destination_connection_id=DESTINATION,
        )
        machine.receive_datagram(datagram, ADDRESS, 0.0)
        while machine.next_event() is not None:
            pass
        if machine.get_peer_address() is not None:  # else there is nobody to answer
            machine.datagrams_to_send(0.0)


def sealed(frames: bytes) -> bytes:
    """A client's first packet, that holds these frames and padding (RFC 9000 17.2.2, RFC 9001 5.2)."""
    payload = frames.ljust(INITIAL_BYTES_MIN, b"\0")
    length = 2 + len(payload) + TAG_BYTES
    header = (
        bytes([0xC1])
        + int(VERSION).to_bytes(4)
        + bytes([len(DESTINATION)])
        + DESTINATION
        + bytes([0, 0])
        + (0x4000 | length).to_bytes(2)
        + bytes(2)
    )
    pair = CryptoPair()
    pair.setup_initial(cid=DESTINATION, is_client=True, version=int(VERSION))
    return pair.encrypt_packet(header, payload, 0)


def first_flights() -> list[bytes]:
    """A datagram as a client sends it first, and frames: crypto, ping, acknowledgement, close."""
    machine = Quic(limits=LIMITS, configuration=settings(dialling=True))
    machine.connect(ADDRESS, 0.0)
    flight = [data for data, _ in machine.datagrams_to_send(0.0)]
    hello = bytes([6, 0, 4, 1, 0, 0, 0])
    return [*flight, hello, b"\x01", bytes([2, 0, 0, 0, 0]), bytes([0x1C, 0, 0, 0])]
