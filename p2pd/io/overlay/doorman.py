"""Datagrams that belong to no connection: which of them open one. Bytes.

Source: RFC 9000 5.2.2, 6, 8.1. A version negotiation packet is never answered with another one.
"""

import secrets
from dataclasses import dataclass

from aioquic.buffer import Buffer  # type: ignore[attr-defined]  # public, not marked so
from aioquic.quic.packet import (
    QuicHeader,
    QuicPacketType,
    QuicProtocolVersion,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)
from aioquic.quic.retry import QuicRetryTokenHandler

from p2pd.io.overlay._aioquic172_in import CONNECTION_ID_BYTES

INITIAL_BYTES_MIN = 1200
VERSIONS = [QuicProtocolVersion.VERSION_1]
Address = tuple[str, int]
"""As the socket gives it: two more items on IPv6."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A client's first packet, good enough to build a connection for."""

    destination: bytes
    """The connection id that the client addressed."""
    original: bytes
    """The one that it addressed before it was told to retry; the same without a retry."""
    retry_source: bytes | None


Reply = bytes
"""A datagram to send back."""


class Doorman:
    def __init__(self) -> None:
        self._tokens = QuicRetryTokenHandler()

    def examine(
        self, data: bytes, address: Address, now_s: float, *, retry: bool
    ) -> Caller | Reply | None:
        """What to do about a long-header datagram for an unknown connection; None drops it.

        With retry, a caller must come again with a token that proves its address.
        """
        header = read_header(data)
        if header is None or len(data) < INITIAL_BYTES_MIN:
            return None
        if header.packet_type == QuicPacketType.VERSION_NEGOTIATION:
            return None
        if header.version not in VERSIONS:
            return encode_quic_version_negotiation(
                source_cid=header.destination_cid,
                destination_cid=header.source_cid,
                supported_versions=list(VERSIONS),
            )
        if header.packet_type != QuicPacketType.INITIAL:
            return None
        if header.token:
            return self._returned(header, address, now_s)
        if retry:
            return self._send_away(header, address, now_s)
        return Caller(header.destination_cid, header.destination_cid, None)

    def _send_away(self, header: QuicHeader, address: Address, now_s: float) -> Reply:
        source = secrets.token_bytes(CONNECTION_ID_BYTES)
        token = self._tokens.create_token(
            address=address,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=source,
            now=now_s,
        )
        assert header.version is not None
        return encode_quic_retry(
            version=header.version,
            source_cid=source,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )

    def _returned(self, header: QuicHeader, address: Address, now_s: float) -> Caller | None:
        try:
            original = self._tokens.validate_token(
                address=address,
                destination_cid=header.destination_cid,
                token=header.token,
                now=now_s,
            )
        except ValueError:
            return None
        return Caller(header.destination_cid, original, header.destination_cid)


def read_header(data: bytes) -> QuicHeader | None:
    """None if data is not a QUIC packet."""
    try:
        return pull_quic_header(Buffer(data=data), host_cid_length=CONNECTION_ID_BYTES)
    except ValueError:
        return None
