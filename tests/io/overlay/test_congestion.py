import pytest
from aioquic import tls
from aioquic.quic.congestion.cubic import CubicCongestionControl
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicSentPacket

from p2pd.io.overlay.congestion import WINDOW_BYTES_MAX, LimitedCubic

PACKET_BYTES = 1200


def packet(sent_s: float) -> QuicSentPacket:
    return QuicSentPacket(
        epoch=tls.Epoch.ONE_RTT,
        in_flight=True,
        is_ack_eliciting=True,
        is_crypto_packet=False,
        packet_number=0,
        packet_type=QuicPacketType.ONE_RTT,
        sent_time=sent_s,
        sent_bytes=PACKET_BYTES,
    )


def turn(control: CubicCongestionControl, now_s: float, rtt_s: float, *, busy: bool) -> None:
    """One round trip of a sender that fills its window, or sends a single packet."""
    count = control.congestion_window // PACKET_BYTES if busy else 1
    packets = [packet(now_s) for _ in range(count)]
    for sent in packets:
        control.on_packet_sent(packet=sent)
    for sent in packets:
        control.on_packet_acked(now=now_s + rtt_s, packet=sent)
    control.on_rtt_measurement(now=now_s + rtt_s, rtt=rtt_s)


def limited() -> LimitedCubic:
    return LimitedCubic(max_datagram_size=PACKET_BYTES)


def test_a_sender_with_little_to_say_keeps_its_window_and_its_slow_start() -> None:
    own, stock = limited(), CubicCongestionControl(max_datagram_size=PACKET_BYTES)
    before = own.congestion_window
    for number in range(200):
        rtt_s = 0.001 + 0.0001 * number  # a queue that others have built
        for control in (own, stock):
            turn(control, number / 10, rtt_s, busy=False)
    assert own.congestion_window == before
    assert own.ssthresh is None
    assert stock.ssthresh is not None


def test_a_busy_sender_doubles_its_window_each_round_trip_up_to_the_bound() -> None:
    control = limited()
    for number in range(6):
        before = control.congestion_window
        turn(control, number / 10, 0.05, busy=True)
        assert control.congestion_window == 2 * before
    for number in range(6, 40):
        turn(control, number / 10, 0.05, busy=True)
    assert abs(control.congestion_window - WINDOW_BYTES_MAX) <= PACKET_BYTES


@pytest.mark.parametrize(("rise_s", "leaves"), [(0.001, False), (0.005, False), (0.008, True)])
def test_a_busy_sender_leaves_slow_start_when_a_queue_builds_up(
    rise_s: float, leaves: bool
) -> None:
    control = limited()
    for number in range(20):
        turn(control, number / 10, 0.05 + (rise_s if number > 5 else 0.0), busy=True)
    assert (control.ssthresh is not None) is leaves


def test_one_fast_round_trip_among_slow_ones_means_that_there_is_no_queue() -> None:
    control = limited()
    for number in range(20):
        turn(control, number / 10, 0.05 if number % 6 == 0 else 0.09, busy=True)
    assert control.ssthresh is None
