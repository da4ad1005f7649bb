"""Every private attribute of aioquic that the overlay relies on: version 1.7.2 exactly.

What it is needed for: speed, asking callers for a certificate and reading it, receive windows that follow
what was read instead of what arrived, the send backlog, the number of streams, and that a
connection is closing. Bytes.
Each has a test in tests/io/overlay/test_aioquic172.py that fails when a release changes it.
"""

import logging
import ssl
from dataclasses import dataclass

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionState, QuicNetworkPath
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicFrameType, QuicPacketType, QuicProtocolVersion
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketPacer, QuicPacketSpace
from aioquic.quic.stream import QuicStream
from aioquic.tls import Epoch
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from p2pd.core.ids import PublicKey

ALPN = "p2pd/1"
CONNECTION_ID_BYTES = 8
STREAM_STEP = 4
"""Stream ids of one kind are so far apart (RFC 9000 2.1)."""

GRANULARITY_S = 0.001
"""Of timers (RFC 9002 6.1.2)."""
BULK_PACKETS = 32
"""Where so many come between two acknowledgements,"""
BULK_ACK_S = 0.004
"""they are acknowledged after this instead of GRANULARITY_S: both sides have less to do. The other side
knows that it may take 25 ms (max_ack_delay, RFC 9000 18.2)."""
FRAME_BYTES_LEAST = 32
"""A packet with less room is full."""


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


class GranularPacer(QuicPacketPacer):
    """Lets go at once what is due within the granularity of timers (RFC 9002 7.7).

    The original stops after 16 packets, however short the round trip: on a fast path each waits
    for a timer that is due at once.
    """

    def update_rate(self, congestion_window: int, smoothed_rtt: float) -> None:
        super().update_rate(congestion_window, smoothed_rtt)
        self.bucket_max = max(self.bucket_max, GRANULARITY_S)


class Quic(QuicConnection):
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
        self._answered_packet = 0
        """The highest that was acknowledged to the other side."""
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

    def _write_application(
        self, builder: QuicPacketBuilder, network_path: QuicNetworkPath, now: float
    ) -> None:
        # The original looks for everything else that could be said before each packet.
        if self._only_streams(network_path, now):
            self._write_streams(builder, now)
        else:
            super()._write_application(builder, network_path, now)

    def _only_streams(self, path: QuicNetworkPath, now_s: float) -> bool:
        """True if nothing but data of streams waits to be sent."""
        ack_at_s = self._spaces[Epoch.ONE_RTT].ack_at
        crypto = self._crypto_streams.get(Epoch.ONE_RTT)
        return (
            self._handshake_complete
            and (ack_at_s is None or ack_at_s > now_s)
            and (crypto is None or crypto.sender.buffer_is_empty)
            and path.is_validated
            and self._local_max_data.value == self._local_max_data.sent
            and self._local_max_streams_bidi.value == self._local_max_streams_bidi.sent
            and not (
                path.remote_challenges
                or self._handshake_done_pending
                or self._retire_connection_ids
                or self._streams_blocked_pending
                or self._ping_pending
                or self._probe_pending
                or self._datagrams_pending
            )
            and all(connection_id.was_sent for connection_id in self._host_cids)
            and not any(map(_has_to_say, self._streams.values()))
        )

    def _write_streams(self, builder: QuicPacketBuilder, now_s: float) -> None:
        """Packets of stream data, as many as may go now; those served go to the end of the queue."""
        crypto, space = self._cryptos[Epoch.ONE_RTT], self._spaces[Epoch.ONE_RTT]
        pacer = self._loss._pacer
        while True:
            self._pacing_at = pacer.next_send_time(now=now_s)
            if self._pacing_at is not None:
                return
            builder.start_packet(QuicPacketType.ONE_RTT, crypto)
            served = []
            for stream in self._streams_queue:
                if stream.is_blocked or stream.sender.buffer_is_empty:
                    continue
                credit = self._remote_max_data - self._remote_max_data_used
                end = min(stream.sender.highest_offset + credit, stream.max_stream_data_remote)
                used = self._write_stream_frame(builder, space, stream, end)
                if used > 0:
                    self._remote_max_data_used += used
                    served.append(stream)
                if builder.remaining_flight_space < FRAME_BYTES_LEAST:
                    break
            if served and len(self._streams_queue) > 1:
                others = [stream for stream in self._streams_queue if stream not in served]
                self._streams_queue = others + served
            if builder.packet_is_empty:
                return
            pacer.update_after_send(now=now_s)

    def _write_ack_frame(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, now: float
    ) -> None:
        super()._write_ack_frame(builder, space, now)
        count = space.largest_received_packet - self._answered_packet
        self._ack_delay = BULK_ACK_S if count >= BULK_PACKETS else GRANULARITY_S
        self._answered_packet = space.largest_received_packet

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


def _has_to_say(stream: QuicStream) -> bool:
    """True if it is over, or has more to say than data."""
    return (
        stream.max_stream_data_local_sent != stream.max_stream_data_local
        or stream.receiver.stop_pending
        or stream.sender.reset_pending
        or stream.is_finished
    )


def _id(stream: QuicStream) -> int:
    assert stream.stream_id is not None  # only the streams of the handshake have none
    return stream.stream_id


def _unacknowledged(stream: QuicStream) -> int:
    sender = stream.sender
    # What was written to a stream that has been reset will never be sent.
    return 0 if sender._reset_error_code is not None else sender._buffer_stop - sender._buffer_start
