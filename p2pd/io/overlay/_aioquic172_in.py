"""Takes in datagrams that came together, without what aioquic 1.7.2 does for each. Bytes, seconds.

A packet is plain if it brings a higher packet number than all before, on the address and key in use, and
nothing but an ACK frame, or one STREAM frame without FIN of a stream that is open, or the one before the other.
What it changes is done here, once a run where that is the same; every other packet is left to aioquic, in its turn.
Source: RFC 9000 13 and 17.3, RFC 9001 5.4, QuicConnection.receive_datagram.
"""

from collections.abc import Sequence

from aioquic._buffer import Buffer, BufferReadError
from aioquic.quic.connection import (
    NetworkAddress,
    QuicConnectionError,
    QuicConnectionState,
    QuicReceiveContext,
)
from aioquic.quic.events import StreamDataReceived
from aioquic.quic.packet import QuicStreamFrame, decode_packet_number
from aioquic.quic.recovery import MAX_ACK_RANGES
from aioquic.tls import Epoch
from cryptography.exceptions import InvalidTag

from p2pd.io.overlay._aioquic172_acks import FULL_BYTES, Acknowledging

CONNECTION_ID_BYTES = 8
NUMBER_AT = 1 + CONNECTION_ID_BYTES
NUMBER_BYTES = 2
"""aioquic writes all packet numbers so long."""
NUMBERS = 1 << 8 * NUMBER_BYTES
PAYLOAD_AT = NUMBER_AT + NUMBER_BYTES
SAMPLE_AT, SAMPLE_BYTES = NUMBER_AT + 4, 16
NONCE_BYTES = 12
PROTECTED_BITS, SPIN_BIT, PHASE_SHIFT = 0x1F, 0x20, 2
FIRST_PLAIN = 0x41
"""First byte of a packet but for spin bit and key phase: short header, nothing reserved, NUMBER_BYTES."""
STREAM_BITS, STREAM_PLAIN, HAS_OFFSET, HAS_LENGTH = 0xF9, 0x08, 4, 2
"""Of the type of a STREAM frame; plain: without FIN."""
FRAME_HEAD_BYTES = 25
ACK = 0x02
"""Type of an ACK frame without counts of congestion."""


class Receiving(Acknowledging):
    def receive_run(
        self, datagrams: Sequence[bytes], address: NetworkAddress, now_s: float
    ) -> None:
        """As receive_datagram for each in turn; all came from address."""
        start = 0
        while start < len(datagrams):
            if self._takes_plain(address):
                taken = _Run(self, now_s).take(datagrams[start:])
                full = sum(len(data) >= FULL_BYTES for data in datagrams[start : start + taken])
                if full:
                    self._note_full(full, now_s)
                start += taken
            if start < len(datagrams):
                self.receive_datagram(datagrams[start], address, now_s)
                start += 1

    def _takes_plain(self, address: NetworkAddress) -> bool:
        """True if plain packets from address change no more than what is done here."""
        if self._state is not QuicConnectionState.CONNECTED or not self._handshake_complete:
            return False
        path, receiving = self._network_paths[0], self._cryptos[Epoch.ONE_RTT].recv
        return (
            path.addr == address
            and path.is_validated
            and receiving.hp is not None
            and not receiving.hp._is_chacha20
            and not self._cryptos[Epoch.ZERO_RTT].recv.is_valid()
            and not self._close_pending
            and self._quic_logger is None
        )


class _Run:
    """Plain packets of one run, and what they change that the connection has not been told yet."""

    def __init__(self, quic: Receiving, now_s: float) -> None:
        self._quic, self._now_s = quic, now_s
        self._space = quic._spaces[Epoch.ONE_RTT]
        receiving = quic._cryptos[Epoch.ONE_RTT].recv
        assert receiving.aead is not None  # takes_plain has looked
        assert receiving.hp is not None
        self._decrypt, self._iv = receiving.aead._aead.decrypt, receiving.aead._iv
        self._protector = receiving.hp._encryptor
        self._first = FIRST_PLAIN | receiving.key_phase << PHASE_SHIFT
        self._connection_id = quic.host_cid
        self._expected: int = self._space.expected_packet_number
        self._last: int = self._space.largest_received_packet
        self._start = self._last + 1
        """Of the packet numbers up to last that were taken and not recorded."""
        self._parts: dict[int, list[bytes]] = {}
        self._elicits = False
        """Something is to be acknowledged."""
        self._disorder = False
        """And soon: packets were missing before it."""

    def take(self, datagrams: Sequence[bytes]) -> int:
        """Takes in those before the first that is not plain; how many these are."""
        samples = [data[SAMPLE_AT : SAMPLE_AT + SAMPLE_BYTES] for data in datagrams]
        joined = b"".join(samples)
        if len(joined) < len(samples) * SAMPLE_BYTES:
            return 0  # one is too short to be a packet
        masks: bytes = self._protector.update(joined)
        taken, first = 0, 0
        for data in datagrams:
            at = SAMPLE_BYTES * taken
            byte = data[0] ^ masks[at] & PROTECTED_BITS
            number = self._number(
                (data[NUMBER_AT] ^ masks[at + 1]) << 8 | data[NUMBER_AT + 1] ^ masks[at + 2]
            )
            plain = self._open(data, byte, number)
            if plain is None or not self._place(plain):
                break
            if number != self._last + 1:
                self._record()
                self._start = number
                self._disorder |= self._elicits or self._space.ack_at is not None
            self._last, first = number, byte
            if number > self._expected:  # as aioquic has it
                self._expected = number + 1
            taken += 1
        if taken:
            self._settle(first)
        return taken

    def _number(self, truncated: int) -> int:
        expected = self._expected
        number = expected & -NUMBERS | truncated
        if -NUMBERS < 2 * (number - expected) <= NUMBERS:
            return number
        return decode_packet_number(truncated, 8 * NUMBER_BYTES, expected)

    def _open(self, data: bytes, first: int, number: int) -> bytes | None:
        """What a packet holds; None if it may not be plain, or is nobody's."""
        if first & ~SPIN_BIT != self._first or number <= self._last:
            return None
        if data[1:NUMBER_AT] != self._connection_id:
            return None
        header = (
            first.to_bytes() + self._connection_id + (number & NUMBERS - 1).to_bytes(NUMBER_BYTES)
        )
        nonce = (self._iv ^ number).to_bytes(NONCE_BYTES)
        try:
            return self._decrypt(nonce, data[PAYLOAD_AT:], header)
        except InvalidTag:
            return None

    def _place(self, plain: bytes) -> bool:
        """Hands on the data of a plain packet; False, and nothing is changed, if it is another."""
        kind = plain[0] if plain else 0
        if kind == ACK:
            rest = self._acknowledged(plain)
            return rest is not None and (not rest or (rest[0] != ACK and self._place(rest)))
        if kind & STREAM_BITS != STREAM_PLAIN:
            return False
        head = Buffer(data=plain[1:FRAME_HEAD_BYTES])
        try:
            stream_id = head.pull_uint_var()
            offset = head.pull_uint_var() if kind & HAS_OFFSET else 0
            length = head.pull_uint_var() if kind & HAS_LENGTH else None
        except BufferReadError:
            return False
        data = plain[1 + head.tell() :]
        if not data or length not in (None, len(data)):
            return False
        placed = self._arrived(stream_id, offset, data)
        self._elicits = self._elicits or placed
        return placed

    def _acknowledged(self, plain: bytes) -> bytes | None:
        """Takes in an ACK frame; what follows it, or None if it does not hold. To do it again changes nothing."""
        quic = self._quic
        context = QuicReceiveContext(
            epoch=Epoch.ONE_RTT,
            host_cid=self._connection_id,
            network_path=quic._network_paths[0],
            quic_logger_frames=None,
            time=self._now_s,
            version=None,
        )
        frame = Buffer(data=plain[1:])
        self._hand_on()
        try:
            quic._handle_ack_frame(context, ACK, frame)
        except (BufferReadError, QuicConnectionError):
            return None
        return plain[1 + frame.tell() :]

    def _arrived(self, stream_id: int, offset: int, data: bytes) -> bool:
        stream = self._quic._streams.get(stream_id)
        if stream is None:
            return False
        receiver, end = stream.receiver, offset + len(data)
        limit = self._quic._local_max_data
        fresh = max(0, end - receiver.highest_offset)
        if (
            receiver.is_finished
            or receiver._final_size is not None
            or end > stream.max_stream_data_local
            or limit.used + fresh > limit.value
        ):
            return False
        limit.used += fresh
        if offset == receiver._buffer_start and not receiver._buffer:
            receiver._buffer_start = end
            receiver.highest_offset = max(end, receiver.highest_offset)
            self._parts.setdefault(stream_id, []).append(data)
            return True
        self._hand_on()
        event = receiver.handle_frame(QuicStreamFrame(data=data, fin=False, offset=offset))
        if event is not None:
            self._quic._events.append(event)
        return True

    def _hand_on(self) -> None:
        """What came in order, one event a stream."""
        for stream_id, parts in self._parts.items():
            self._quic._events.append(
                StreamDataReceived(data=b"".join(parts), end_stream=False, stream_id=stream_id)
            )
        self._parts.clear()

    def _record(self) -> None:
        """Has the packets since start acknowledged."""
        if self._start > self._last:
            return
        space, window = self._space, self._space.received_packets
        space.ack_queue.add(self._start, self._last + 1)
        if len(space.ack_queue) > MAX_ACK_RANGES:
            space.ack_queue.shift()
        window._received.update(range(self._start, self._last))
        window.add(self._last)

    def _settle(self, first: int) -> None:
        """Tells the connection all; first: byte of the last packet."""
        quic, space = self._quic, self._space
        self._hand_on()
        self._record()
        space.expected_packet_number = self._expected
        space.largest_received_packet = quic._spin_highest_pn = self._last
        space.largest_received_time = self._now_s
        if self._elicits and space.ack_at is None:
            space.ack_at = self._now_s + quic._ack_delay
        if self._disorder:
            quic._note_disorder(self._now_s)
        quic._spin_bit = bool(first & SPIN_BIT) != quic._is_client
        quic._close_at = self._now_s + quic._idle_timeout()
        quic._ack_eliciting_sent_since_receipt = False
