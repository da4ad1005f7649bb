"""Packets of nothing but stream data: right, as many as may go, and none too many. Virtual seconds, no socket."""

import dataclasses
from collections import defaultdict
from functools import cache
from random import Random

import pytest
from aioquic.quic import events
from aioquic.quic.connection import QuicConnection
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.io.overlay import congestion
from p2pd.io.overlay._aioquic172 import Quic
from p2pd.io.overlay._aioquic172_out import GranularPacer
from tests.io.overlay.bench import LIMITS
from tests.io.overlay.pair import CLIENT, SERVER, Pair, endings, taken, twin

ROOMY = dataclasses.replace(
    LIMITS,
    streams=8,
    request_window_bytes=2**17,
    connection_window_bytes=2**18,
    congestion=congestion.ALGORITHM,
)
STREAMS = (0, 4, 8)
FULL_BYTES = 1167
"""Of a stream below 64, at offsets that take two bytes, in a packet of 1200; one more where it takes one."""


class Plain(Quic):
    """Writes its packets as aioquic does."""

    _write_application = QuicConnection._write_application


@cache
def linked() -> Pair:
    congestion.register()
    pair = Pair(ROOMY)
    pair.run(50)
    return pair


def plain(quic: Quic) -> Quic:
    other = twin(quic)
    other.__class__ = Plain
    return other


def begun() -> tuple[Quic, float]:
    """A client that may send at once, and has sent a little: an offset of 0 may be left out."""
    pair = linked()
    client = twin(pair.client)
    client._loss._cc.congestion_window = 2**16
    client.send_stream_data(0, bytes(10))
    said(client, pair.now_s)
    return client, pair.now_s + 1


def said(quic: Quic, now_s: float) -> list[bytes]:
    return [data for data, _ in quic.datagrams_to_send(now_s)]


@pytest.mark.parametrize("first_packet", [0, 2**16 - 5])
@pytest.mark.parametrize("updated", [False, True])
@pytest.mark.parametrize(("size_bytes", "count"), [(40_000, 35), (1 + 10 * FULL_BYTES, 10)])
def test_packets_of_one_stream_are_to_the_bit_those_of_aioquic(
    size_bytes: int, count: int, updated: bool, first_packet: int
) -> None:
    client, now_s = begun()
    client._packet_number += first_packet
    client._spin_bit = updated
    if updated:
        client.request_key_update()
    client.send_stream_data(0, Random(0).randbytes(size_bytes), end_stream=True)
    other = plain(client)
    packets = said(client, now_s)
    assert len(packets) == count
    assert packets == said(other, now_s)
    assert client._loss.bytes_in_flight == other._loss.bytes_in_flight
    assert client._remote_max_data_used == other._remote_max_data_used
    assert client._packet_number == other._packet_number


def test_on_a_long_path_as_many_packets_go_at_once_as_aioquic_lets_go() -> None:
    client, now_s = begun()
    client._loss._pacer.update_rate(2**16, 0.1)
    client.send_stream_data(0, bytes(40_000))
    other = plain(client)
    for moment_s in (now_s, now_s + 0.02, now_s + 0.021):
        packets = said(client, moment_s)
        assert 0 < len(packets) < 17
        assert packets == said(other, moment_s)


def test_what_is_short_goes_before_a_bulk() -> None:
    client, now_s = begun()
    server = twin(linked().server)
    client._loss._cc.congestion_window = client._loss.bytes_in_flight + 5000
    client.send_stream_data(0, bytes(40_000))
    client.send_stream_data(4, b"short")
    server.receive_run(said(client, now_s), CLIENT, now_s)
    assert server._streams[4].receiver.highest_offset == len(b"short")


def test_a_bulk_does_not_hold_up_that_the_other_half_is_declined() -> None:
    client, now_s = begun()
    server = twin(linked().server)
    client.send_stream_data(0, bytes(40_000))
    client.stop_stream(0, 7)
    server.receive_run(said(client, now_s), CLIENT, now_s)
    assert any(isinstance(event, events.StopSendingReceived) for event in taken(server))


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_whatever_the_network_loses_all_streams_arrive_whole(seed: int) -> None:
    dice = Random(seed)
    journey = Journey(dice)
    updated_at = dice.randrange(50)
    for turn in range(3000):
        if turn == updated_at:
            journey.client.request_key_update()
        if dice.random() < 0.1:
            journey.client.send_ping(0)
        if journey.step():
            break
    client, written = journey.client, journey.written
    assert client.closing() is None
    assert dict(journey.arrived) == written
    assert client.backlog_bytes() == 0
    assert client._remote_max_data_used == sum(map(len, written.values()))


class Journey:
    """Streams on their way through a network that loses some packets."""

    def __init__(self, dice: Random) -> None:
        pair = linked()
        self.client, self.server, self.now_s = twin(pair.client), twin(pair.server), pair.now_s
        self.written = {stream: dice.randbytes(dice.randint(1, 150_000)) for stream in STREAMS}
        self.arrived: dict[int, bytes] = defaultdict(bytes)
        self._left = {stream: memoryview(data) for stream, data in self.written.items()}
        self._ended: set[int] = set()
        self._dice = dice
        self._loss = dice.choice((0.0, 0.01, 0.1))

    def step(self) -> bool:
        """True once all has arrived, and that is known."""
        self.now_s += 0.002
        for stream, data in tuple(self._left.items()):
            count = self._dice.choice((1, 1000, 60_000))
            last = count >= len(data)
            self.client.send_stream_data(stream, bytes(data[:count]), end_stream=last)
            self._left[stream] = data[count:]
            if last:
                del self._left[stream]
        _exchange(self.client, self.server, CLIENT, self.now_s, self._dice, self._loss)
        for event in taken(self.server):
            if isinstance(event, events.StreamDataReceived):
                self.arrived[event.stream_id] += event.data
                self.server.read(event.stream_id, len(event.data), wanted=not event.end_stream)
                if event.end_stream:
                    self._ended.add(event.stream_id)
        _exchange(self.server, self.client, SERVER, self.now_s, self._dice, self._loss)
        for _ in taken(self.client):
            pass
        return len(self._ended) == len(STREAMS) and not self.client.backlog_bytes()


def _exchange(
    source: Quic, target: Quic, address: tuple[str, int], now_s: float, dice: Random, loss: float
) -> None:
    wanted_s = source.get_timer()
    if wanted_s is not None and wanted_s <= now_s:
        source.handle_timer(now_s)
    window, before = source._loss.congestion_window, source._loss.bytes_in_flight
    run = said(source, now_s)
    probe = ROOMY.datagram_bytes
    assert source._loss.bytes_in_flight <= max(window, before) + probe
    target.receive_run([data for data in run if dice.random() >= loss], address, now_s)


def test_a_bulk_takes_the_short_way_also_while_there_is_something_else_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[QuicPacketType] = []
    original = QuicPacketBuilder.start_packet

    def start(self: QuicPacketBuilder, kind: QuicPacketType, crypto: CryptoPair) -> None:
        built.append(kind)
        original(self, kind, crypto)

    monkeypatch.setattr(QuicPacketBuilder, "start_packet", start)
    pair = linked()
    client, now_s = twin(pair.client), pair.now_s + 1
    client._loss._cc.congestion_window = 2**16
    client.send_stream_data(0, bytes(50_000))
    client.send_stream_data(4, b"little")
    client.send_ping(1)
    packets = said(client, now_s)
    assert len(packets) > 40
    assert len(built) < 8
    server = twin(pair.server)
    server.receive_run(packets, CLIENT, now_s)
    counts: dict[int, int] = defaultdict(int)
    for event in taken(server):
        assert isinstance(event, events.StreamDataReceived)
        counts[event.stream_id] += len(event.data)
    assert counts == {0: 50_000, 4: 6}


def test_a_stream_beyond_its_window_leaves_the_others_their_turn() -> None:
    pair = linked()
    client, server, now_s = twin(pair.client), twin(pair.server), pair.now_s
    client.send_stream_data(0, bytes(2**20))
    for _ in range(200):
        now_s += 0.002
        _exchange(client, server, CLIENT, now_s, Random(0), 0.0)
        _exchange(server, client, SERVER, now_s, Random(0), 0.0)
    assert server._streams[0].receiver.highest_offset == ROOMY.request_window_bytes
    client.send_stream_data(4, bytes(50_000))
    for _ in range(50):
        now_s += 0.002
        _exchange(client, server, CLIENT, now_s, Random(0), 0.0)
        _exchange(server, client, SERVER, now_s, Random(0), 0.0)
    assert server._streams[4].receiver.highest_offset == 50_000


@given(st.integers(2400, 2**23), st.floats(0.0001, 0.5), st.floats(0, 1), st.integers(1, 300))
def test_packets_paced_together_are_as_many_as_one_by_one(
    window: int, rtt_s: float, waited_s: float, most: int
) -> None:
    one, many = (GranularPacer(max_datagram_size=1200) for _ in range(2))
    assert many.may_send(most) == most  # nothing is known of the way yet
    for pacer in (one, many):
        pacer.update_rate(window, rtt_s)
        pacer.update_bucket(waited_s)
    count = 0
    while count < most and one.next_send_time(waited_s) is None:
        one.update_after_send(waited_s)
        count += 1
    assert abs(many.may_send(most) - count) <= 1  # what is left of a sum of small numbers
    many.sent(count)
    assert many.bucket_time == pytest.approx(one.bucket_time, abs=1e-9)


@pytest.mark.parametrize("own", [False, True])
def test_streams_arrive_whole_whichever_way_packets_are_filled(
    own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not own:
        monkeypatch.setattr(Quic, "_write_application", QuicConnection._write_application)
    pair = Pair(dataclasses.replace(LIMITS, streams=4, connection_window_bytes=2**19))
    sent = {stream: bytes([stream]) * (50_000 + stream) for stream in (0, 4, 8)}
    for stream, data in sent.items():
        pair.client.send_stream_data(stream, data, end_stream=True)
    received = dict.fromkeys(sent, b"")
    for _ in range(60):
        pair.run(2)
        for event in pair.at_server:
            if isinstance(event, events.StreamDataReceived):
                received[event.stream_id] += event.data
                pair.server.read(event.stream_id, len(event.data), wanted=not event.end_stream)
        pair.at_server.clear()
    assert received == sent
    assert not endings(pair.at_client)


def test_packets_of_nothing_but_data_are_filled_without_looking_for_more() -> None:
    pair = Pair()
    pair.client.send_stream_data(0, bytes(100))
    path = pair.client._network_paths[0]
    assert pair.client._only_streams(path)
    pair.client.send_ping(1)
    assert not pair.client._only_streams(path)
    pair.run(5)
    assert pair.client._only_streams(path)
    pair.client.reset_stream(0, 1)
    assert not pair.client._only_streams(path)


def test_streams_share_packets_by_turns() -> None:
    pair = Pair(dataclasses.replace(LIMITS, streams=4))
    for stream in (0, 4, 8):
        pair.client.send_stream_data(stream, bytes(20_000))
    pair.run(2)
    first = [e.stream_id for e in pair.at_server if isinstance(e, events.StreamDataReceived)]
    assert set(first) == {0, 4, 8}
