"""When packets are acknowledged: with what is said anyway, or after a while. Seconds, bytes.

aioquic 1.7.2 acknowledges each packet a millisecond after it came, in a packet of its own unless something is
said at that very moment. Between two who talk in turns that doubles what both have to do.
Source: RFC 9000 13.2.
"""

from aioquic._buffer import Buffer
from aioquic.quic.connection import NetworkAddress, QuicConnection
from aioquic.quic.packet import pull_quic_transport_parameters, push_quic_transport_parameters
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.tls import Epoch

GRANULARITY_S = 0.001
"""Of timers (RFC 9002 6.1.2)."""
ALONE_S = 0.06
"""What comes alone waits so long for something to go with: an answer that is read from disk first, the next message
of a window. What is lost at the end of a flight is noticed that much later."""
ALLOWED_S = 0.075
"""The other side is told that it may take so long (max_ack_delay, RFC 9000 18.2): a timer may be late."""
PARAMETERS_BYTES = 1024
"""Of room for transport parameters: a tenth of it is used."""
FULL_BYTES = 1200
"""A packet of so many may be what its sender can have under way at most (RFC 9000 14.1),"""
FULL_PACKETS = 2
"""so that the sender may wait for their acknowledgement: it goes after GRANULARITY_S."""
BULK_PACKETS = 32
"""Where so many come between two acknowledgements,"""
BULK_ACK_S = 0.004
"""they are acknowledged after this: both sides have less to do."""


class Acknowledging(QuicConnection):
    _answered_packet = 0
    """The highest that was acknowledged to the other side."""
    _full_packets = 0
    """That came since."""
    _prompt_s = GRANULARITY_S
    """How soon full packets are acknowledged."""

    def receive_datagram(self, data: bytes, addr: NetworkAddress, now: float) -> None:
        space = self._spaces.get(Epoch.ONE_RTT)
        last, count = (-1, 0) if space is None else _received(space)
        super().receive_datagram(data, addr, now)
        if len(data) >= FULL_BYTES:
            self._note_full(1, now)
        if space is not None:
            highest, count_now = _received(space)
            late = highest == last and count_now > count
            if late or highest > last + 1:
                self._note_disorder(now)

    def _serialize_transport_parameters(self) -> bytes:
        # The original always says 25 ms.
        usual = super()._serialize_transport_parameters()
        parameters = pull_quic_transport_parameters(Buffer(data=usual))
        parameters.max_ack_delay = round(ALLOWED_S * 1000)
        buffer = Buffer(capacity=PARAMETERS_BYTES)
        push_quic_transport_parameters(buffer, parameters)
        return buffer.data

    def _note_full(self, count: int, now_s: float) -> None:
        """So many full packets came."""
        self._full_packets += count
        space = self._spaces.get(Epoch.ONE_RTT)
        if space is not None and space.ack_at is not None and self._full_packets >= FULL_PACKETS:
            space.ack_at = min(space.ack_at, now_s + self._prompt_s)

    def _note_disorder(self, now_s: float) -> None:
        """A packet came after a gap, or late into one: its sender soon takes packets for lost (RFC 9000 13.2.1)."""
        space = self._spaces[Epoch.ONE_RTT]
        if space.ack_at is not None:
            space.ack_at = min(space.ack_at, now_s + GRANULARITY_S)

    def _ack_is_due(self, now_s: float) -> bool:
        at_s = self._spaces[Epoch.ONE_RTT].ack_at
        return at_s is not None and at_s <= now_s

    def _bundle_ack(self, now_s: float) -> None:
        """Has what is to be acknowledged go with what is to be said now."""
        space = self._spaces[Epoch.ONE_RTT]
        if space.ack_at is not None and space.ack_at > now_s:
            space.ack_at = now_s

    def _write_ack_frame(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, now: float
    ) -> None:
        super()._write_ack_frame(builder, space, now)
        if not self._handshake_confirmed:
            return  # nobody allows for a delay yet
        count = space.largest_received_packet - self._answered_packet
        self._answered_packet, self._full_packets = space.largest_received_packet, 0
        self._prompt_s = BULK_ACK_S if count >= BULK_PACKETS else GRANULARITY_S
        self._ack_delay = ALONE_S


def _received(space: QuicPacketSpace) -> tuple[int, int]:
    """The highest packet number that came, and how many are known to have come: a lower one makes these more."""
    return space.largest_received_packet, len(space.received_packets._received)
