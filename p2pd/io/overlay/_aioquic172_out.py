"""Writes packets of nothing but stream data, without what aioquic 1.7.2 does for each. Bytes, seconds.

A stream with more to say than a packet holds has several packets written at once, which share what is
the same for all; what is shorter goes first, through aioquic's own packet builder.
Source: RFC 9000 12.4, 17.3 and 19.8, RFC 9001 5.4, QuicConnection.datagrams_to_send.
"""

import math

from aioquic.buffer import encode_uint_var
from aioquic.quic.connection import NetworkAddress, QuicConnectionState, QuicNetworkPath
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder, QuicSentPacket
from aioquic.quic.recovery import QuicPacketPacer
from aioquic.quic.stream import QuicStream
from aioquic.tls import Epoch

from p2pd.io.overlay._aioquic172_acks import GRANULARITY_S, Acknowledging
from p2pd.io.overlay._aioquic172_in import (
    FIRST_PLAIN,
    NONCE_BYTES,
    NUMBER_BYTES,
    NUMBERS,
    PHASE_SHIFT,
    PROTECTED_BITS,
    SAMPLE_BYTES,
    SPIN_BIT,
)

LATE_MAX_S = 0.02
"""No more than what was due in so long goes at once, however late a timer comes."""
FRAME_BYTES_LEAST = 32
"""A packet with less room is full."""
TURN_PACKETS = 16
"""Of one stream, before the next one has its turn."""
STREAM_FRAME = b"\x0e"
"""With offset and length, without FIN."""
TWO_BYTES = 0x4000
"""Marks an integer of that length."""
TAG_BYTES = 16
SAMPLE_AT = 4 - NUMBER_BYTES
"""In what follows the packet number."""


class GranularPacer(QuicPacketPacer):
    """Lets go at once what is due within the granularity of timers (RFC 9002 7.7).

    The original stops after 16 packets, however short the round trip: on a fast path each waits
    for a timer that is due at once. And it forgets what became due while a packet was held back and
    the timer came late, as it does where others want the processor too.
    """

    _held = False
    """There was more to send at the last look than was due."""

    def update_rate(self, congestion_window: int, smoothed_rtt: float) -> None:
        super().update_rate(congestion_window, smoothed_rtt)
        self.bucket_max = max(self.bucket_max, GRANULARITY_S)

    def next_send_time(self, now: float) -> float | None:  # type: ignore[override]  # so does the original
        at_s = super().next_send_time(now)
        self._held = at_s is not None
        return at_s

    def update_bucket(self, now: float) -> None:
        usual_s = self.bucket_max
        if self._held:
            self.bucket_max = max(usual_s, min(now - self.evaluation_time, LATE_MAX_S))
        super().update_bucket(now)
        self.bucket_max = usual_s

    def may_send(self, most: int) -> int:
        """How many packets may go at the time of the last look at the bucket, up to most."""
        if self.packet_time is None:
            return most
        return min(most, max(0, math.ceil(self.bucket_time / self.packet_time)))

    def sent(self, count: int) -> None:
        """As update_after_send for each."""
        if self.packet_time is not None:
            self.bucket_time = max(0.0, self.bucket_time - count * self.packet_time)


class Sending(Acknowledging):
    @property
    def pacer(self) -> GranularPacer:
        assert isinstance(self._loss._pacer, GranularPacer)
        return self._loss._pacer

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, NetworkAddress]]:
        if self._is_silent(now):
            self._pacing_at = None
            return []
        return super().datagrams_to_send(now)

    def _is_silent(self, now_s: float) -> bool:
        """True if there is nothing to send, as it is most often when something has come."""
        return (
            self._state is QuicConnectionState.CONNECTED
            and self._handshake_confirmed
            and not self._close_pending
            and len(self._network_paths) == 1
            and self._network_paths[0].is_validated
            and self._remote_preferred_address is None
            and not self._ack_is_due(now_s)
            and not any(map(_waits, self._streams_queue))
            and self._only_streams(self._network_paths[0])
        )

    def _write_application(
        self, builder: QuicPacketBuilder, network_path: QuicNetworkPath, now: float
    ) -> None:
        # The original looks for everything else that could be said before each packet.
        if not self._handshake_complete or not network_path.is_validated:
            super()._write_application(builder, network_path, now)
            return
        if any(map(_waits, self._streams_queue)):
            self._bundle_ack(now)  # the first packet of bulk takes it along, too
        if self._only_streams(network_path):
            self._write_streams(builder, now)
        else:
            self._write_rest(builder, network_path, now)

    def _write_rest(self, builder: QuicPacketBuilder, path: QuicNetworkPath, now_s: float) -> None:
        """All that waits; streams that fill packets by themselves come after the rest."""
        bulk = [stream for stream in self._streams_queue if self._is_bulk(stream)]
        if bulk:
            self._streams_queue = [one for one in self._streams_queue if one not in bulk]
        try:
            super()._write_application(builder, path, now_s)
        finally:
            self._streams_queue = bulk + self._streams_queue
        if bulk:
            self._write_streams(builder, now_s)

    def _is_bulk(self, stream: QuicStream) -> bool:
        return self._ready_bytes(stream) > self._max_datagram_size and not _has_to_say(stream)

    def _ready_bytes(self, stream: QuicStream) -> int:
        """What can be sent of a stream now and in one piece."""
        sender = stream.sender
        if stream.is_blocked or sender.buffer_is_empty or not len(sender._pending):
            return 0
        pending = sender._pending[0]
        return min(pending.stop, self._allowed_end(stream)) - pending.start

    def _only_streams(self, path: QuicNetworkPath) -> bool:
        """True if nothing but data of streams, and acknowledgements, waits to be sent."""
        crypto, streams = self._crypto_streams.get(Epoch.ONE_RTT), self._local_max_streams_bidi
        return (
            (crypto is None or crypto.sender.buffer_is_empty)
            and self._local_max_data.value == self._local_max_data.sent
            and streams.sent - streams.used >= streams.value - streams.sent  # as aioquic has it
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
        pacer = self.pacer
        while True:
            if not self._ack_is_due(now_s):  # that may go whatever the pacer says
                self._pacing_at = pacer.next_send_time(now=now_s)
                if self._pacing_at is not None:
                    return
                if bulk := self._bulk():
                    if not self._write_bulk(builder, bulk[0], len(bulk)):
                        return
                    continue
            self._write_shared(builder, now_s)
            if builder.packet_is_empty:
                return
            pacer.update_after_send(now=now_s)
            if not any(map(_waits, self._streams_queue)):
                return

    def _write_shared(self, builder: QuicPacketBuilder, now_s: float) -> None:
        """One packet, of as many streams as fit into it, after what is to be acknowledged."""
        space = self._spaces[Epoch.ONE_RTT]
        builder.start_packet(QuicPacketType.ONE_RTT, self._cryptos[Epoch.ONE_RTT])
        if self._ack_is_due(now_s):
            self._write_ack_frame(builder, space, now_s)
        served = []
        for stream in self._streams_queue:
            if stream.is_blocked or stream.sender.buffer_is_empty:
                continue
            used = self._write_stream_frame(builder, space, stream, self._allowed_end(stream))
            if used > 0:
                self._remote_max_data_used += used
                served.append(stream)
            if builder.remaining_flight_space < FRAME_BYTES_LEAST:
                break
        self._put_last(served)

    def _put_last(self, served: list[QuicStream]) -> None:
        if served and len(self._streams_queue) > 1:
            others = [stream for stream in self._streams_queue if stream not in served]
            self._streams_queue = others + served

    def _allowed_end(self, stream: QuicStream) -> int:
        """The offset up to which the other side takes a stream now."""
        credit = self._remote_max_data - self._remote_max_data_used
        end: int = min(stream.sender.highest_offset + credit, stream.max_stream_data_remote)
        return end

    def _bulk(self) -> list[QuicStream]:
        """The streams that fill packets by themselves, the next one first; none if any has less to say."""
        crypto = self._cryptos[Epoch.ONE_RTT]
        if crypto._update_key_requested or crypto.send.hp is None or crypto.send.hp._is_chacha20:
            return []
        found = []
        for stream in self._streams_queue:
            if stream.is_blocked or stream.sender.buffer_is_empty:
                continue
            ready = self._ready_bytes(stream)
            if ready > self._max_datagram_size:
                found.append(stream)
            elif ready > 0 or not len(stream.sender._pending):
                return []
        return found

    def _write_bulk(self, builder: QuicPacketBuilder, stream: QuicStream, sharers: int) -> bool:
        """Full packets of one stream, as many as are its share; False if none may go."""
        if builder._packet is not None:
            builder._end_packet()
        assert builder.max_flight_bytes is not None  # datagrams_to_send has set it
        room = builder.max_flight_bytes - builder._flight_bytes
        count = self.pacer.may_send(room // self._max_datagram_size)
        if count < 1:
            return False
        count = min(TURN_PACKETS, max(1, count // sharers))
        sender = stream.sender
        pending = sender._pending[0]
        end = min(pending.stop, self._allowed_end(stream))
        stop = _Bulk(self, builder, stream).write(pending.start, end, count)
        sender._pending.subtract(pending.start, stop)
        self._remote_max_data_used += max(0, stop - sender.highest_offset)
        sender.highest_offset = max(stop, sender.highest_offset)
        self._put_last([stream])
        return True


def _waits(stream: QuicStream) -> bool:
    """True if it has data to send, or its end."""
    sender = stream.sender
    if stream.is_blocked or sender.buffer_is_empty:
        return False
    return sender._pending_eof or len(sender._pending) > 0


def _has_to_say(stream: QuicStream) -> bool:
    """True if it is over, or has more to say than data."""
    return (
        stream.max_stream_data_local_sent != stream.max_stream_data_local
        or stream.receiver.stop_pending
        or stream.sender.reset_pending
        or stream.is_finished
    )


class _Bulk:
    """Full packets of one stream, given to a builder as if it had built them."""

    def __init__(self, quic: Sending, builder: QuicPacketBuilder, stream: QuicStream) -> None:
        assert stream.stream_id is not None  # only the streams of the handshake have none
        self._builder, self._sender, self._stream_id = builder, stream.sender, stream.stream_id
        self._pacer = quic.pacer
        crypto = quic._cryptos[Epoch.ONE_RTT]
        assert crypto.send.aead is not None
        assert crypto.send.hp is not None
        self._aead, self._protector = crypto.send.aead, crypto.send.hp._encryptor
        self._connection_id: bytes = builder._peer_cid
        room = quic._max_datagram_size - 1 - len(self._connection_id) - NUMBER_BYTES - TAG_BYTES
        self._packet_bytes: int = quic._max_datagram_size
        self._room_bytes = room
        self._first = FIRST_PLAIN | crypto.key_phase << PHASE_SHIFT
        if builder._spin_bit:
            self._first |= SPIN_BIT

    def write(self, start: int, end: int, count: int) -> int:
        """At most count packets of the bytes from start, less than up to end; where they stop."""
        encrypt, iv = self._aead._aead.encrypt, self._aead._iv
        first = self._first.to_bytes() + self._connection_id
        frame = STREAM_FRAME + encode_uint_var(self._stream_id)
        number = self._builder.packet_number
        base = self._sender._buffer_start
        sealed: list[bytes] = []
        packets: list[QuicSentPacket] = []
        with memoryview(self._sender._buffer) as buffer:
            while len(sealed) < count:
                head = frame + _integer(start)
                size = self._room_bytes - len(head) - 2
                if end - start <= size:
                    break
                piece = buffer[start - base : start - base + size]
                plain = b"".join((head, (TWO_BYTES | size).to_bytes(2), piece))
                header = first + (number & NUMBERS - 1).to_bytes(NUMBER_BYTES)
                sealed.append(encrypt((iv ^ number).to_bytes(NONCE_BYTES), plain, header))
                piece.release()
                packets.append(self._packet(number, start, start + size))
                start, number = start + size, number + 1
        self._hand_over(sealed, packets)
        return start

    def _packet(self, number: int, start: int, stop: int) -> QuicSentPacket:
        return QuicSentPacket(
            epoch=Epoch.ONE_RTT,
            in_flight=True,
            is_ack_eliciting=True,
            is_crypto_packet=False,
            packet_number=number,
            packet_type=QuicPacketType.ONE_RTT,
            sent_bytes=self._packet_bytes,
            delivery_handlers=[(self._sender.on_data_delivery, (start, stop, False))],
        )

    def _hand_over(self, sealed: list[bytes], packets: list[QuicSentPacket]) -> None:
        """Protects the headers, all with one call, and has the builder take the packets."""
        samples = [data[SAMPLE_AT : SAMPLE_AT + SAMPLE_BYTES] for data in sealed]
        masks = self._protector.update(b"".join(samples))
        builder, at = self._builder, 0
        for data, packet in zip(sealed, packets, strict=True):
            first = self._first ^ masks[at] & PROTECTED_BITS
            number = packet.packet_number & NUMBERS - 1 ^ (masks[at + 1] << 8 | masks[at + 2])
            header = first.to_bytes() + self._connection_id + number.to_bytes(NUMBER_BYTES)
            builder._datagrams.append(header + data)
            at += SAMPLE_BYTES
        builder._packets += packets
        builder._packet_number += len(packets)
        builder._flight_bytes += len(packets) * self._packet_bytes
        builder._total_bytes += len(packets) * self._packet_bytes
        self._pacer.sent(len(packets))


def _integer(value: int) -> bytes:
    """RFC 9000 16."""
    if 1 << 14 <= value < 1 << 30:
        return (value | 0x80000000).to_bytes(4)
    return encode_uint_var(value)
