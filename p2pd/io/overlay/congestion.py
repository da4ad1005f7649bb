"""CUBIC that grows only while it is what holds the sender back. Bytes, seconds.

aioquic's own grows on every acknowledgement, also of a sender that has little to say, up to tens of
megabytes; its pacer then releases one packet per call. It also leaves slow start for good when the
round trip of a sender with little to say varies by a fraction of a millisecond.
Source: RFC 9438 5.8 and RFC 9002 7.8 (growth), RFC 9406 4.2 (leaving slow start).
"""

import math
from collections import deque

from aioquic.quic.congestion.base import register_congestion_control
from aioquic.quic.congestion.cubic import CubicCongestionControl
from aioquic.quic.packet_builder import QuicSentPacket

ALGORITHM = "p2pd-cubic"
WINDOW_BYTES_MAX = 8 * 2**20
RTT_SAMPLES = 8
RTT_RISE_MIN_S = 0.004
RTT_RISE_MAX_S = 0.016
RTT_RISE_DIVISOR = 8


class LimitedCubic(CubicCongestionControl):
    def __init__(self, *, max_datagram_size: int) -> None:
        super().__init__(max_datagram_size=max_datagram_size)
        self._full_at_s = -math.inf  # when at least half of the window was last in flight
        self._in_use = False
        self._lowest_rtt_s = math.inf
        self._recent_rtts_s: deque[float] = deque(maxlen=RTT_SAMPLES)

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        super().on_packet_sent(packet=packet)
        if packet.sent_time is not None and self.bytes_in_flight * 2 >= self.congestion_window:
            self._full_at_s = packet.sent_time

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        window = self.congestion_window
        self._in_use = packet.sent_time is not None and packet.sent_time <= self._full_at_s
        super().on_packet_acked(now=now, packet=packet)
        if not self._in_use or self.congestion_window > WINDOW_BYTES_MAX:
            self.congestion_window = min(self.congestion_window, window)

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        """Leaves slow start when even the fastest of recent round trips shows that a queue has built up."""
        self.rtt = rtt
        self._lowest_rtt_s = min(self._lowest_rtt_s, rtt)
        self._recent_rtts_s.append(rtt)
        if self.ssthresh is None and self._in_use and len(self._recent_rtts_s) == RTT_SAMPLES:
            rise_s = self._lowest_rtt_s / RTT_RISE_DIVISOR
            rise_s = min(max(rise_s, RTT_RISE_MIN_S), RTT_RISE_MAX_S)
            if min(self._recent_rtts_s) >= self._lowest_rtt_s + rise_s:
                self.ssthresh = self.congestion_window


def register() -> None:
    """Makes ALGORITHM known to aioquic."""
    register_congestion_control(ALGORITHM, LimitedCubic)
