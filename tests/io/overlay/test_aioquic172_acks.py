"""When packets are acknowledged. Virtual seconds, no socket."""

from functools import cache

import pytest
from aioquic.tls import Epoch

from p2pd.io.overlay._aioquic172 import Quic
from p2pd.io.overlay._aioquic172_acks import ALLOWED_S, ALONE_S, FULL_BYTES, GRANULARITY_S
from tests.io.overlay.pair import CLIENT, SERVER, Pair, twin


@cache
def linked() -> Pair:
    pair = Pair()
    pair.run(50)
    return pair


def told(*sizes: int) -> tuple[Quic, Quic, float]:
    """A client, and a server to which it has just sent a stream of each size."""
    pair = linked()
    client, server, now_s = twin(pair.client), twin(pair.server), pair.now_s + 1
    for number, size in enumerate(sizes):
        client.send_stream_data(4 * number, bytes(size))
    packets = said(client, now_s)
    server.receive_run(packets, CLIENT, now_s)
    return client, server, now_s


def said(quic: Quic, now_s: float) -> list[bytes]:
    return [data for data, _ in quic.datagrams_to_send(now_s)]


def due_s(quic: Quic) -> float | None:
    return quic._spaces[Epoch.ONE_RTT].ack_at


def test_what_comes_alone_is_acknowledged_after_a_while() -> None:
    client, server, now_s = told(100)
    assert due_s(server) == pytest.approx(now_s + ALONE_S)
    assert said(server, now_s + ALONE_S / 2) == []
    client.receive_run(said(server, now_s + ALONE_S), SERVER, now_s + ALONE_S)
    assert client.backlog_bytes() == 0


def test_the_other_side_does_not_take_it_for_lost_meanwhile() -> None:
    client, _, now_s = told(100)
    loss_s = client._loss.get_loss_detection_time(amplification_limited=False)
    assert loss_s is not None
    assert loss_s - now_s > ALLOWED_S > ALONE_S


def test_each_side_tells_the_other_how_long_it_may_take() -> None:
    for quic in (linked().client, linked().server):
        assert quic._loss.max_ack_delay == ALLOWED_S


def test_an_acknowledgement_goes_with_what_is_said_before_it_is_due() -> None:
    client, server, now_s = told(100)
    server.send_stream_data(0, b"answer")
    (packet,) = said(server, now_s)
    assert due_s(server) is None
    client.receive_run([packet], SERVER, now_s)
    assert client.backlog_bytes() == 0
    assert client._streams[0].receiver.highest_offset == len(b"answer")


def test_an_acknowledgement_goes_with_bulk_too() -> None:
    client, server, now_s = told(100)
    size = 20 * server._max_datagram_size
    server.send_stream_data(0, bytes(size))
    packets = said(server, now_s)
    assert due_s(server) is None
    assert len(packets) > 1
    client.receive_run(packets[:1], SERVER, now_s)
    assert client.backlog_bytes() == 0
    assert client._streams[0].receiver.highest_offset > server._max_datagram_size // 2


@pytest.mark.parametrize("by_one", [True, False])
def test_full_packets_are_acknowledged_soon_for_their_sender_may_wait(by_one: bool) -> None:
    client, server, now_s = told(100)
    client.send_stream_data(0, bytes(5 * FULL_BYTES))
    packets = said(client, now_s)
    for run in [[one] for one in packets] if by_one else [packets]:
        server.receive_run(run, CLIENT, now_s)
    assert due_s(server) == pytest.approx(now_s + GRANULARITY_S)


@pytest.mark.parametrize("by_run", [True, False])
def test_a_gap_is_told_soon_and_so_is_what_comes_late_into_it(by_run: bool) -> None:
    client, server, now_s = told(100)
    server.send_stream_data(0, b"answer")  # takes the acknowledgement along
    client.receive_run(said(server, now_s), SERVER, now_s)

    def hear(packets: list[bytes]) -> None:
        if by_run:
            server.receive_run(packets, CLIENT, now_s)
        else:
            for packet in packets:
                server.receive_datagram(packet, CLIENT, now_s)

    client.send_stream_data(0, b"late")
    late = said(client, now_s)
    client.send_stream_data(0, b"early")
    hear(said(client, now_s))
    assert due_s(server) == pytest.approx(now_s + GRANULARITY_S)

    said(server, now_s + GRANULARITY_S)
    assert due_s(server) is None
    hear(late)
    assert due_s(server) == pytest.approx(now_s + GRANULARITY_S)

    said(server, now_s + GRANULARITY_S)
    client.send_stream_data(0, b"in order again")
    hear(said(client, now_s))
    assert due_s(server) == pytest.approx(now_s + ALONE_S)


def test_what_comes_a_little_late_is_not_sent_again() -> None:
    client, server, now_s = told(100)
    there_s, late_s = 0.025, 0.001
    client._loss._rtt_latest = client._loss._rtt_smoothed = 2 * there_s
    client._loss._rtt_min = 2 * there_s
    server.send_stream_data(0, b"answer")
    client.receive_run(said(server, now_s), SERVER, now_s + 2 * there_s)

    now_s += 1
    client.send_stream_data(0, b"late")
    late = said(client, now_s)
    client.send_stream_data(0, b"early")
    server.receive_run(said(client, now_s), CLIENT, now_s + there_s)
    server.send_stream_data(0, b"answered at once")
    answer = said(server, now_s + there_s)
    server.receive_run(late, CLIENT, now_s + there_s + late_s)
    wanted_s = server.get_timer()
    assert wanted_s is not None
    told_late = said(server, wanted_s)

    client.receive_run(answer, SERVER, now_s + 2 * there_s)
    loss_s = client._loss.get_loss_detection_time(amplification_limited=False)
    assert loss_s is not None
    assert wanted_s + there_s < loss_s
    client.receive_run(told_late, SERVER, wanted_s + there_s)
    assert client.backlog_bytes() == 0


def test_nothing_waits_before_the_handshake_is_confirmed() -> None:
    pair = Pair()
    assert pair.client._handshake_confirmed
    fresh = Quic(limits=pair.client._limits, configuration=pair.client._configuration)
    assert fresh._ack_delay == GRANULARITY_S


def test_who_has_nothing_to_say_builds_no_packet() -> None:
    client, server, now_s = told(100)
    assert server._is_silent(now_s)
    assert not server._is_silent(now_s + ALONE_S)
    server.send_ping(1)
    assert not server._is_silent(now_s)
    client.send_stream_data(0, b"more")
    assert not client._is_silent(now_s)
