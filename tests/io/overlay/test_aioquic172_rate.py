"""How fast aioquic 1.7.2 sends, and how fast with our congestion control and pacer. Virtual seconds, no socket."""

import dataclasses

import pytest
from aioquic.quic.recovery import QuicPacketPacer

from p2pd.io.overlay import congestion
from p2pd.io.overlay._aioquic172_acks import GRANULARITY_S
from p2pd.io.overlay._aioquic172_out import LATE_MAX_S, GranularPacer
from tests.io.overlay.bench import LIMITS
from tests.io.overlay.pair import Pair


@pytest.mark.parametrize("own", [False, True])
def test_an_idle_sender_grows_its_window_with_aioquics_control_and_not_with_ours(own: bool) -> None:
    congestion.register()
    name = congestion.ALGORITHM if own else "cubic"
    pair = Pair(dataclasses.replace(LIMITS, congestion=name))
    before = pair.client._loss.congestion_window
    for _ in range(200):
        pair.client.send_stream_data(0, bytes(100))
        pair.run(5)
        pair.server.read(0, 100, wanted=True)
    grown = pair.client._loss.congestion_window - before
    assert (grown == 0) if own else (grown > 10_000)


def test_a_busy_sender_grows_its_window_up_to_a_bound() -> None:
    congestion.register()
    window = 64 * 2**20
    pair = Pair(
        dataclasses.replace(
            LIMITS,
            congestion=congestion.ALGORITHM,
            datagram_bytes=16_000,
            request_window_bytes=window,
            connection_window_bytes=window,
        )
    )
    before = pair.client._loss.congestion_window
    pair.client.send_stream_data(0, bytes(window))
    pair.run(300)
    after = pair.client._loss.congestion_window
    assert before < after <= congestion.WINDOW_BYTES_MAX + 16_000


@pytest.mark.parametrize(("own", "most"), [(False, 16), (True, 10_000)])
def test_on_a_fast_path_aioquics_pacer_lets_go_of_a_few_packets_and_ours_of_all_that_is_due(
    own: bool, most: int
) -> None:
    pacer = (GranularPacer if own else QuicPacketPacer)(max_datagram_size=1200)
    pacer.update_rate(8 * 2**20, 0.0005)
    pacer.update_bucket(1.0)
    assert released(pacer, 1.0) <= most
    assert (released(pacer, 2.0) > 100) is own


@pytest.mark.parametrize("own", [False, True])
def test_on_a_long_path_both_pacers_spread_what_is_sent(own: bool) -> None:
    pacer = (GranularPacer if own else QuicPacketPacer)(max_datagram_size=1200)
    pacer.update_rate(2**20, 0.1)
    assert released(pacer, 1.0) == 16


@pytest.mark.parametrize(
    ("held", "late_s", "due_s"),
    [(True, 0.015, 0.015), (True, 1.0, LATE_MAX_S), (False, 0.015, GRANULARITY_S)],
)
def test_what_was_due_while_a_timer_was_late_goes_at_once_if_it_was_held_back(
    held: bool, late_s: float, due_s: float
) -> None:
    pacer = GranularPacer(max_datagram_size=1200)
    pacer.update_rate(2**20, 0.02)
    released(pacer, 1.0)  # all that is due: the next one is held back
    if not held:
        assert pacer.next_send_time(1.002) is None  # there is nothing more to send
        while pacer.bucket_time > 0:
            pacer.update_after_send(1.002)
    packets = released(pacer, 1.002 + late_s) if not held else released(pacer, 1.0 + late_s)
    assert packets == pytest.approx(due_s * 2**20 / 0.02 / 1200, abs=2)


def released(pacer: QuicPacketPacer, now_s: float) -> int:
    """Packets that may be sent at one instant."""
    count = 0
    while count < 100_000 and pacer.next_send_time(now_s) is None:
        pacer.update_after_send(now_s)
        count += 1
    return count
