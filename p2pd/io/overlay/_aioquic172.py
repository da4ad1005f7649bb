"""With _aioquic172_acks, _in and _out: all private attributes of aioquic that the overlay needs, version 1.7.2 exactly.

What they are needed for: speed, asking callers for a certificate and reading it, receive windows that follow
what was read instead of what arrived, the send backlog, the number of streams, and that a
connection is closing. Bytes.
Each has a test in tests/io/overlay/test_aioquic172*.py that fails when a release changes it.
"""

import logging
import ssl
from dataclasses import dataclass

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnectionState
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicFrameType, QuicProtocolVersion
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from p2pd.core.ids import PublicKey
from p2pd.io.overlay._aioquic172_in import CONNECTION_ID_BYTES, Receiving
from p2pd.io.overlay._aioquic172_out import GranularPacer, Sending

ALPN = "p2pd/1"
STREAM_STEP = 4
"""Stream ids of one kind are so far apart (RFC 9000 2.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicLimits:
    datagram_bytes: int
    idle_s: float
    streams: int
    """Streams that the other side may have open."""
    stream_window_bytes: int
    """Of streams opened here."""
    request_window_bytes: int
    """Of streams opened by the other side."""
    connection_window_bytes: int
    congestion: str


def configuration(
    limits: QuicLimits, certificate: x509.Certificate, key: Ed25519PrivateKey, *, dialling: bool
) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=dialling,
        alpn_protocols=[ALPN],
        certificate=certificate,
        private_key=key,
        # Self-signed: no chain to check. The signature made with the key is checked all the same.
        verify_mode=ssl.CERT_NONE,
        supported_versions=[QuicProtocolVersion.VERSION_1],
        connection_id_length=CONNECTION_ID_BYTES,
        max_datagram_size=limits.datagram_bytes,
        idle_timeout=limits.idle_s,
        max_data=limits.connection_window_bytes,
        max_stream_data=limits.stream_window_bytes,
        congestion_control_algorithm=limits.congestion,
    )


def silence() -> None:
    """Stops aioquic's own log: a peer could fill it with its mistakes."""
    logging.getLogger("quic").setLevel(logging.CRITICAL)


class Quic(Receiving, Sending):
    """One connection, as its two ends need it."""

    def __init__(
        self,
        *,
        limits: QuicLimits,
        configuration: QuicConfiguration,
        original_destination_connection_id: bytes | None = None,
        retry_source_connection_id: bytes | None = None,
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
            retry_source_connection_id=retry_source_connection_id,
        )
        self._limits = limits
        self._loss._pacer = GranularPacer(max_datagram_size=limits.datagram_bytes)
        self._read_bytes = 0
        self._read_by_stream: dict[int, int] = {}
        self._local_max_streams_bidi.value = self._local_max_streams_bidi.sent = limits.streams
        self._local_max_streams_uni.value = self._local_max_streams_uni.sent = 0
        self._local_max_stream_data_bidi_remote = limits.request_window_bytes

    def peer_key(self) -> PublicKey | None:
        """The Ed25519 key that the other side proved to hold; None if it showed no such thing."""
        certificate = self.tls._peer_certificate
        if certificate is None:
            return None
        key = certificate.public_key()
        return PublicKey(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None

    def closing(self) -> ConnectionTerminated | None:
        """How the connection ends, as soon as that is known: its event comes three timeouts later."""
        return self._close_event

    def closed_by_peer(self) -> bool:
        return self._state is QuicConnectionState.DRAINING

    def was_stopped(self, stream_id: int) -> bool:
        """True if writing to a stream would fail: the other side has declined to read it."""
        stream = self._streams.get(stream_id)
        return stream is None or stream.sender._reset_error_code is not None

    def streams_left(self) -> int:
        """How many more streams the other side lets this one open now."""
        return self._remote_max_streams_bidi - self._local_next_stream_id_bidi // STREAM_STEP

    def backlog_bytes(self) -> int:
        """Written, and not acknowledged yet, on all streams."""
        return sum(_unacknowledged(stream) for stream in self._streams.values())

    def stream_backlog_bytes(self, stream_id: int) -> int:
        stream = self._streams.get(stream_id)
        return 0 if stream is None else _unacknowledged(stream)

    def read(self, stream_id: int, count: int, *, wanted: bool) -> bool:
        """Notes that count bytes of a stream were taken; asks for more only if wanted.

        True if there is a new limit to tell the other side.
        """
        self._read_by_stream[stream_id] = self._read_by_stream.get(stream_id, 0) + count
        self._read_bytes += count
        stream = self._streams.get(stream_id)
        raised = wanted and stream is not None and self._stream_step(stream)
        return self._connection_step() or raised

    def discard(self, stream_id: int) -> bool:
        """Gives back the window of what was not read of a stream that the other side has reset.

        True if there is a new limit to tell the other side.
        """
        highest = self._streams[stream_id].receiver.highest_offset
        self._read_bytes += highest - self._read_by_stream.pop(stream_id, 0)
        return self._connection_step()

    def forget(self, stream_id: int) -> None:
        """Drops the account of a stream that has been read to its end."""
        self._read_by_stream.pop(stream_id, None)

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        if not self._is_client:
            self.tls._request_client_certificate = True

    def _window_bytes(self, stream: QuicStream) -> int:
        mine = bool(_id(stream) & 1) != self._is_client  # RFC 9000 2.1
        return self._limits.stream_window_bytes if mine else self._limits.request_window_bytes

    def _stream_step(self, stream: QuicStream) -> bool:
        """Raises a stream's limit if half its window was read since it was last raised."""
        window = self._window_bytes(stream)
        limit = self._read_by_stream.get(_id(stream), 0) + window
        due = limit - stream.max_stream_data_local >= window // 2
        if due and not stream.receiver.is_finished:
            stream.max_stream_data_local = limit
            return True
        return False

    def _connection_step(self) -> bool:
        window = self._limits.connection_window_bytes
        limit = self._read_bytes + window
        if limit - self._local_max_data.value >= window // 2:
            self._local_max_data.value = limit
            return True
        return False

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        if stream.max_stream_data_local_sent == stream.max_stream_data_local:
            return
        buffer = builder.start_frame(
            QuicFrameType.MAX_STREAM_DATA,
            capacity=17,  # one byte and two integers of at most eight
            handler=self._on_max_stream_data_delivery,
            handler_args=(stream,),
        )
        buffer.push_uint_var(_id(stream))
        buffer.push_uint_var(stream.max_stream_data_local)
        stream.max_stream_data_local_sent = stream.max_stream_data_local

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        # The original doubles the limit once half of it is used; it never does if none is.
        used, self._local_max_data.used = self._local_max_data.used, 0
        try:
            super()._write_connection_limits(builder, space)
        finally:
            self._local_max_data.used = used


def _id(stream: QuicStream) -> int:
    assert stream.stream_id is not None  # only the streams of the handshake have none
    return stream.stream_id


def _unacknowledged(stream: QuicStream) -> int:
    sender = stream.sender
    # What was written to a stream that has been reset will never be sent.
    return 0 if sender._reset_error_code is not None else sender._buffer_stop - sender._buffer_start
