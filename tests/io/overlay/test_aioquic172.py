"""What aioquic 1.7.2 does and does not do, where the overlay relies on it. Virtual seconds, no socket."""

import dataclasses
import importlib.metadata

import pytest
from aioquic.quic import events

from p2pd.io.overlay._aioquic172 import ALPN, Quic
from p2pd.io.overlay._aioquic172_acks import ALLOWED_S, ALONE_S, BULK_ACK_S, GRANULARITY_S
from tests.io.overlay.bench import LIMITS, identity
from tests.io.overlay.pair import ALICE, BOB, Pair, arrived_bytes, configured, endings


def test_the_private_attributes_are_those_of_this_version() -> None:
    assert importlib.metadata.version("aioquic") == "1.7.2"


def test_both_sides_learn_the_key_that_the_other_one_holds() -> None:
    pair = Pair()
    assert pair.client.peer_key() == BOB.key
    assert pair.server.peer_key() == ALICE.key


def test_without_being_asked_a_client_stays_anonymous() -> None:
    pair = Pair(stock_server=True)
    assert any(isinstance(event, events.HandshakeCompleted) for event in pair.at_server)
    assert pair.server.tls._peer_certificate is None


def test_an_empty_client_certificate_completes_the_handshake_without_a_key() -> None:
    client = configured(dialling=True)
    client.certificate = client.private_key = None
    pair = Pair(client=client)
    assert any(isinstance(event, events.HandshakeCompleted) for event in pair.at_server)
    assert pair.server.peer_key() is None


def test_a_certificate_with_the_key_of_someone_else_fails_the_handshake() -> None:
    client = configured(dialling=True)
    client.private_key = identity("mallory").private_key
    pair = Pair(client=client)
    assert not any(isinstance(event, events.HandshakeCompleted) for event in pair.at_server)


def test_another_protocol_name_fails_the_handshake() -> None:
    client = configured(dialling=True)
    client.alpn_protocols = ["h3"]
    pair = Pair(client=client)
    pair.run(1000)
    assert ALPN == "p2pd/1"
    assert not any(isinstance(event, events.HandshakeCompleted) for event in pair.at_server)
    assert endings(pair.at_client)


def test_i09_an_unread_stream_brings_no_more_than_its_window() -> None:
    pair = Pair()
    pair.client.send_stream_data(0, bytes(2**20))
    pair.run()
    assert arrived_bytes(pair.at_server) == LIMITS.request_window_bytes
    pair.server.read(0, LIMITS.request_window_bytes, wanted=True)
    pair.run()
    assert arrived_bytes(pair.at_server) == 2 * LIMITS.request_window_bytes


def test_a_stream_opened_here_has_the_greater_window() -> None:
    pair = Pair()
    pair.client.send_stream_data(0, b"ask", end_stream=True)
    pair.run()
    pair.server.send_stream_data(0, bytes(2**20))
    pair.run()
    assert arrived_bytes(pair.at_client) == LIMITS.stream_window_bytes


def test_i09_all_unread_streams_bring_no_more_than_the_connections_window() -> None:
    pair = Pair()
    for number in range(LIMITS.streams):
        pair.client.send_stream_data(4 * number, bytes(2**20))
    pair.run()
    assert arrived_bytes(pair.at_server) == LIMITS.connection_window_bytes


def test_a_stream_that_is_not_wanted_gets_no_more_window_but_the_connection_does() -> None:
    pair = Pair()
    for stream_id in (0, 4):
        pair.client.send_stream_data(stream_id, bytes(2**20))
    pair.run()
    for stream_id in (0, 4):
        pair.server.read(stream_id, LIMITS.request_window_bytes, wanted=False)
    pair.run()
    assert arrived_bytes(pair.at_server) == 2 * LIMITS.request_window_bytes
    for number in range(2, LIMITS.streams):
        pair.client.send_stream_data(4 * number, bytes(2**20))
    pair.run()
    total = LIMITS.connection_window_bytes + 2 * LIMITS.request_window_bytes
    assert arrived_bytes(pair.at_server) == total


def test_unread_bytes_of_reset_streams_return_to_the_connections_window() -> None:
    pair = Pair()
    for _ in range(40):
        stream_id = pair.client.get_next_available_stream_id()
        pair.client.send_stream_data(stream_id, bytes(LIMITS.request_window_bytes))
        pair.run(20)
        pair.client.reset_stream(stream_id, 0)
        pair.server.reset_stream(stream_id, 0)
        pair.run(10)
    assert arrived_bytes(pair.at_server) == 40 * LIMITS.request_window_bytes
    assert pair.server._read_by_stream == {}


def test_the_backlog_counts_what_is_not_acknowledged() -> None:
    pair = Pair()
    pair.client.send_stream_data(0, bytes(20_000))
    pair.client.send_stream_data(4, bytes(10_000))
    assert pair.client.backlog_bytes() == 30_000
    assert pair.client.stream_backlog_bytes(4) == 10_000
    pair.run(20)
    assert pair.client.backlog_bytes() == pair.client.stream_backlog_bytes(0) == 0


def test_the_backlog_of_a_reset_stream_is_nothing() -> None:
    pair = Pair()
    pair.client.send_stream_data(0, bytes(2**20))
    pair.client.reset_stream(0, 0)
    assert pair.client.backlog_bytes() == 0


def test_writing_to_a_declined_stream_fails_and_that_is_known_before() -> None:
    pair = Pair()
    pair.client.send_stream_data(0, b"x")
    pair.run()
    assert not pair.server.was_stopped(0)
    pair.client.stop_stream(0, 0)
    pair.run()
    assert pair.server.was_stopped(0)
    with pytest.raises(RuntimeError):
        pair.server.send_stream_data(0, b"y")


def test_stream_slots_come_back_when_both_halves_are_finished_and_not_before() -> None:
    pair = Pair()
    assert pair.client.streams_left() == LIMITS.streams
    for number in range(LIMITS.streams):
        pair.client.send_stream_data(4 * number, b"x", end_stream=True)
    pair.run()
    assert pair.client.streams_left() == 0
    for number in range(LIMITS.streams):
        pair.server.send_stream_data(4 * number, b"", end_stream=True)
    pair.run()
    assert pair.client.streams_left() > 0


def test_a_reset_of_a_stream_beyond_the_limit_breaks_the_connection() -> None:
    pair = Pair()
    for number in range(LIMITS.streams + 1):
        pair.client.send_stream_data(4 * number, b"x")
    pair.client.reset_stream(4 * LIMITS.streams, 0)
    pair.run(1000)
    assert endings(pair.at_client)


def test_streams_in_one_direction_are_not_allowed() -> None:
    pair = Pair()
    pair.client.send_stream_data(2, b"x")
    pair.run()
    assert arrived_bytes(pair.at_server) == 0
    assert pair.client._remote_max_streams_uni == 0
    assert not endings(pair.at_client)


def test_datagram_frames_are_not_allowed() -> None:
    pair = Pair()
    pair.client.send_datagram_frame(b"x")
    pair.run(1000)
    assert endings(pair.at_client)
    assert not any(isinstance(event, events.DatagramFrameReceived) for event in pair.at_server)


@pytest.mark.parametrize(
    ("datagram_bytes", "whole"), [(1200, True), (16_000, True), (17_000, False)]
)
def test_datagrams_beyond_the_allowed_size_corrupt_streams(
    datagram_bytes: int, whole: bool
) -> None:
    window = 2**20
    pair = Pair(
        dataclasses.replace(
            LIMITS,
            datagram_bytes=datagram_bytes,
            request_window_bytes=window,
            connection_window_bytes=2 * window,
        )
    )
    pair.client.send_stream_data(0, bytes(window))
    pair.run(400)
    assert (arrived_bytes(pair.at_server) == window) is whole


def test_a_close_is_known_before_its_event_comes() -> None:
    pair = Pair()
    pair.server.close(error_code=7, reason_phrase="enough")
    pair.run(2)
    closing = pair.client.closing()
    assert closing is not None
    assert (closing.error_code, closing.frame_type, closing.reason_phrase) == (7, None, "enough")
    assert pair.client.closed_by_peer()
    assert not pair.server.closed_by_peer()
    assert not endings(pair.at_client)


def test_forged_packets_change_nothing() -> None:
    pair = Pair()
    for number in range(500):
        forged = bytes([0x40]) + pair.server.host_cid + number.to_bytes(60)
        pair.server.receive_datagram(forged, ("198.51.100.7", number), pair.now_s)
    pair.client.send_stream_data(0, b"still here")
    pair.run()
    assert arrived_bytes(pair.at_server) == len(b"still here")


def test_nothing_can_be_sent_before_a_first_datagram_was_understood() -> None:
    server = Quic(
        limits=LIMITS,
        configuration=configured(dialling=False),
        original_destination_connection_id=bytes(8),
    )
    assert server.get_peer_address() is None
    with pytest.raises(IndexError):
        server.datagrams_to_send(0.0)


def test_a_session_is_never_resumed() -> None:
    pair = Pair()
    completed = [e for e in pair.at_client if isinstance(e, events.HandshakeCompleted)]
    assert [event.session_resumed for event in completed] == [False]
    assert pair.client._session_ticket_handler is None
    assert pair.server._session_ticket_fetcher is None


def test_a_bulk_is_acknowledged_less_often_and_little_at_once() -> None:
    pair = Pair(
        dataclasses.replace(LIMITS, request_window_bytes=2**20, connection_window_bytes=2**21)
    )
    pair.client.send_stream_data(0, bytes(500))
    pair.run(5)
    assert pair.server._prompt_s == GRANULARITY_S
    pair.client.send_stream_data(0, bytes(2**19))
    slowest = 0.0
    for _ in range(50):
        pair.run(1)
        slowest = max(slowest, pair.server._prompt_s)
    assert slowest == BULK_ACK_S < ALONE_S < ALLOWED_S


def test_the_ids_of_streams_must_be_used_in_order() -> None:
    pair = Pair(dataclasses.replace(LIMITS, streams=4))
    ids = []
    for _ in range(3):  # as open_stream does: written to at once, so that the next id is another
        ids.append(pair.client.get_next_available_stream_id())
        pair.client.send_stream_data(ids[-1], b"")
    assert ids == [0, 4, 8]
    pair = Pair(dataclasses.replace(LIMITS, streams=4))
    pair.client.send_stream_data(4, b"?")
    with pytest.raises(ValueError, match="finished stream"):
        pair.client.send_stream_data(0, b"?")
