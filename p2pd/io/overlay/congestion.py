"""CUBIC that grows only while it is what holds the sender back. Bytes.

aioquic's own grows on every acknowledgement, also of a sender that has little to say, up to tens of
megabytes; its pacer then releases one packet per call. Source: RFC 9438 5.8, RFC 9002 7.8.
"""

from aioquic.quic.congestion.base import register_congestion_control
from aioquic.quic.congestion.cubic import CubicCongestionControl
from aioquic.quic.packet_builder import QuicSentPacket

ALGORITHM = "p2pd-cubic"
WINDOW_BYTES_MAX = 8 * 2**20


class LimitedCubic(CubicCongestionControl):
    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        window = self.congestion_window
        in_use = self.bytes_in_flight * 2 >= window
        super().on_packet_acked(now=now, packet=packet)
        if not in_use or self.congestion_window > WINDOW_BYTES_MAX:
            self.congestion_window = min(self.congestion_window, window)


def register() -> None:
    """Makes ALGORITHM known to aioquic."""
    register_congestion_control(ALGORITHM, LimitedCubic)
