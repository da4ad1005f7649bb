"""Datagrams taken in together leave a connection as if they had come one by one. Virtual seconds, no socket."""

import dataclasses
from collections import defaultdict
from functools import cache
from random import Random

import pytest
from aioquic.buffer import encode_uint_var
from aioquic.quic import events
from aioquic.quic.connection import QuicConnection
from aioquic.quic.recovery import MAX_ACK_RANGES
from aioquic.tls import Epoch
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.io.overlay._aioquic172 import Quic
from tests.io.overlay.bench import LIMITS
from tests.io.overlay.pair import CLIENT, SERVER, Pair, taken, twin

ROOMY = dataclasses.replace(
    LIMITS, streams=8, request_window_bytes=2**15, connection_window_bytes=2**16
)
STREAMS = (0, 4, 8)
KEPT = 100
ODD = (-90, -1, 1, 2**14, 2**15 + 2**14, 2**20)


@cache
def linked() -> Pair:
    """Two that have shaken hands, the last acknowledgements included."""
    pair = Pair(ROOMY)
    pair.run(50)
    return pair


class Trio:
    """A client, and two servers in one state: one takes runs, the other each datagram by itself."""

    def __init__(self) -> None:
        pair = linked()
        self.now_s = pair.now_s
        self.client, self.runs, self.single = (
            twin(pair.client),
            twin(pair.server),
            twin(pair.server),
        )
        self.seen: dict[bool, dict[int, bytes]] = {
            True: defaultdict(bytes),
            False: defaultdict(bytes),
        }
        self.plain = 0

    def deliver(self, run: list[bytes], *, wanted: bool) -> None:
        self.runs.receive_run(run, CLIENT, self.now_s)
        for data in run:
            self.single.receive_datagram(data, CLIENT, self.now_s)
        assert self.take(self.runs, True, wanted) == self.take(self.single, False, wanted)
        assert self.seen[True] == self.seen[False]
        assert state(self.runs) == state(self.single)

    def take(self, server: Quic, runs: bool, wanted: bool) -> list[events.QuicEvent]:
        """Takes all data, and asks for more if it is wanted; returns all other events."""
        others: list[events.QuicEvent] = []
        counts: dict[int, int] = defaultdict(int)
        for event in taken(server):
            if isinstance(event, events.StreamDataReceived):
                self.seen[runs][event.stream_id] += event.data
                counts[event.stream_id] += len(event.data)
                assert event.data or event.end_stream
                if event.end_stream:
                    others.append(dataclasses.replace(event, data=b""))
            else:
                others.append(event)
        for stream_id, count in sorted(counts.items()) if wanted else ():
            server.read(stream_id, count, wanted=True)
        return others

    def answer(self, lost: bool) -> None:
        """What both say now is the same, to the last bit; the client may hear it."""
        for server in (self.runs, self.single):
            wanted_s = server.get_timer()
            if wanted_s is not None and wanted_s <= self.now_s:
                server.handle_timer(self.now_s)
        said = self.runs.datagrams_to_send(self.now_s)
        assert said == self.single.datagrams_to_send(self.now_s)
        if not lost:
            self.client.receive_run([data for data, _ in said], SERVER, self.now_s)
            for _ in taken(self.client):
                pass


def state(quic: Quic) -> object:
    space = quic._spaces[Epoch.ONE_RTT]
    recent = range(max(0, space.largest_received_packet - KEPT), space.largest_received_packet + 9)
    return (
        quic._state,
        quic._close_event,
        quic._close_at,
        quic._spin_bit,
        quic._ack_eliciting_sent_since_receipt,
        quic._local_max_data.used,
        list(space.ack_queue),
        space.ack_at,
        space.expected_packet_number,
        space.largest_received_packet,
        space.largest_received_time,
        [number in space.received_packets for number in recent],
        quic._loss.bytes_in_flight,
        quic._loss.congestion_window,
        quic._loss._rtt_smoothed,
        list(space.sent_packets),
        quic.backlog_bytes(),
        {
            number: (
                stream.receiver.highest_offset,
                stream.receiver.is_finished,
                stream.receiver._buffer,
                stream.receiver._buffer_start,
                stream.receiver._ranges,
                stream.receiver._final_size,
            )
            for number, stream in quic._streams.items()
        },
    )


def said_by(client: Quic, dice: Random, now_s: float) -> list[bytes]:
    """Something or other that a client may do, on the wire."""
    crafted: list[bytes] = []
    for _ in range(0 if client.closing() else dice.randint(1, 3)):
        stream_id = dice.choice(STREAMS)
        act = dice.choice(
            ("write",) * 14 + ("fin", "reset", "stop", "ping", "key", "leap", "craft", "craft")
        )
        if act == "ping":
            client.send_ping(1)
        elif act == "key":
            client.request_key_update()
        elif act == "leap":
            client._packet_number += 30_000
        elif act == "craft":
            crafted += [craft(client, dice, stream_id) for _ in range(3)]
        elif act == "stop" and stream_id in client._streams:
            client.stop_stream(stream_id, 0)
        elif act == "reset" and stream_id in client._streams:
            client.reset_stream(stream_id, 0)
        elif act in ("write", "fin") and not finished(client, stream_id):
            data = dice.randbytes(dice.choice((1, 900, 5000, 30_000)))
            client.send_stream_data(stream_id, data, end_stream=act == "fin")
    wanted_s = client.get_timer()
    if wanted_s is not None and wanted_s <= now_s:
        client.handle_timer(now_s)
    return crafted + [data for data, _ in client.datagrams_to_send(now_s)]


def craft(client: Quic, dice: Random, stream_id: int) -> bytes:
    """A packet as aioquic would not write it: odd STREAM frames, all bits of the first byte."""
    stream = client._streams.get(stream_id)
    sent = 0 if stream is None else stream.sender.highest_offset
    odd = dice.random() < 0.2
    kind = dice.choice((8, 9, 10, 11, 12, 13, 15)) if odd else 14
    frame = bytes([kind, stream_id if dice.random() < 0.98 else 1])
    if kind & 4:
        frame += encode_uint_var(max(0, sent + dice.choice(ODD if odd else (0, 40, 80))))
    data = dice.randbytes(dice.choice((0, 1, 40, 90)))
    if kind & 2:
        frame += encode_uint_var(len(data) + (dice.random() < 0.03))
    payload = frame + data + (dice.choice((b"\0", b"\x01", b"\x3f")) if odd else b"")
    number, crypto = client._packet_number, client._cryptos[Epoch.ONE_RTT]
    client._packet_number += 1
    first = 0x41 | crypto.key_phase << 2 | dice.choice((0, 0x20)) | (dice.random() < 0.03) << 3
    header = bytes([first]) + client._peer_cid.cid + (number & 0xFFFF).to_bytes(2)
    return crypto.encrypt_packet(header, payload.ljust(4, b"\0"), number)


def finished(client: Quic, stream_id: int) -> bool:
    """True if nothing may be written to a stream, or to one before it was (ids come in order)."""
    stream = client._streams.get(stream_id)
    if stream is None:
        return client.get_next_available_stream_id() != stream_id
    return stream.sender._buffer_fin is not None or client.was_stopped(stream_id)


def disturbed(run: list[bytes], dice: Random) -> list[bytes]:
    """As a network may deliver it: less, more, in another order, with other bytes."""
    run = [data for data in run if dice.random() < 0.95]
    for _ in range(dice.choice((0, 0, 1, 2)) if run else 0):
        place = dice.randrange(len(run))
        act = dice.choice(("swap", "twice", "flip", "short", "garbage"))
        if act == "swap":
            other = dice.randrange(len(run))
            run[place], run[other] = run[other], run[place]
        elif act == "twice":
            run.insert(place, run[dice.randrange(len(run))])
        elif act == "flip" and run[place]:
            data = bytearray(run[place])
            data[dice.randrange(dice.choice((12, len(data)))) % len(data)] ^= 1 << dice.randrange(8)
            run.insert(place, bytes(data))
        elif act == "short" and run[place]:
            run.insert(place, run[place][: dice.randrange(len(run[place]))])
        else:
            run.insert(place, run[place][:9] + dice.randbytes(dice.choice((0, 1, 20, 1191))))
    return run


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_a_run_leaves_a_connection_as_its_datagrams_one_by_one_would(seed: int, turns: int) -> None:
    dice, three = Random(seed), Trio()
    late: list[bytes] = []
    for _ in range(turns):
        three.now_s += dice.choice((0.0, 0.0005, 0.003, 0.05))
        run = disturbed(said_by(three.client, dice, three.now_s), dice)
        if dice.random() < 0.1:
            late, run = run, late
        three.deliver(run, wanted=dice.random() < 0.7)
        three.answer(lost=dice.random() < 0.1)


def packets(client: Quic, *frames: bytes) -> list[bytes]:
    crypto, sealed = client._cryptos[Epoch.ONE_RTT], []
    for frame in frames:
        number = client._packet_number
        client._packet_number += 1
        header = bytes([0x41]) + client._peer_cid.cid + (number & 0xFFFF).to_bytes(2)
        sealed.append(crypto.encrypt_packet(header, frame, number))
    return sealed


def stream_frame(stream_id: int, offset: int, data: bytes, *, last: bool = False) -> bytes:
    head = bytes([15 if last else 14, stream_id])
    return head + encode_uint_var(offset) + encode_uint_var(len(data)) + data


def ack(highest: int, fewer: int = 0) -> bytes:
    return b"\x02" + encode_uint_var(highest) + b"\0\0" + encode_uint_var(fewer)


PING, CLOSE = b"\x01\0\0", b"\x1d\x05\0"


@pytest.mark.parametrize(
    "after",
    [
        b"",
        stream_frame(0, 110, b"more"),
        stream_frame(0, 110, b"more", last=True),
        stream_frame(0, 10, b"repeated"),
        ack(0),
        PING,
        CLOSE,
        b"\x40",
    ],
)
@pytest.mark.parametrize("odd", [0, 1000, -1])
def test_acknowledgements_in_a_run_are_taken_in_as_they_are_one_by_one(
    after: bytes, odd: int
) -> None:
    three = Trio()
    first = packets(three.client, stream_frame(0, 0, bytes(100)))
    three.deliver(first, wanted=False)
    for server in (three.runs, three.single):
        server.send_stream_data(0, bytes(3000))
        server.send_ping(7)
    three.now_s += 0.02
    three.answer(lost=True)
    sent = max(three.runs._spaces[Epoch.ONE_RTT].sent_packets)
    # More than there are break the protocol; beyond what was sent, aioquic does not mind.
    frame = ack(sent + odd) if odd >= 0 else ack(sent, sent + 1)
    three.now_s += 0.004
    run = packets(
        three.client,
        stream_frame(0, 100, bytes(10)),
        frame + after,
        stream_frame(0, 114, bytes(10)),
    )
    three.deliver(run, wanted=True)
    breaks = odd < 0 or after[:1] in (CLOSE[:1], b"\x40", b"\x0f")
    assert (three.runs.closing() is None) != breaks
    three.answer(lost=False)


def test_an_end_that_overtakes_the_data_before_it_ends_the_stream_all_the_same() -> None:
    three = Trio()
    three.deliver(packets(three.client, stream_frame(0, 100, b"", last=True)), wanted=True)
    parts = (stream_frame(0, at, bytes(25)) for at in range(0, 100, 25))
    three.deliver(packets(three.client, *parts), wanted=True)
    assert three.runs._streams[0].receiver.is_finished


def test_more_gaps_than_are_acknowledged_drop_the_oldest() -> None:
    three = Trio()
    frames = [stream_frame(0, 10 * n, bytes(10)) for n in range(300)]
    three.deliver(packets(three.client, *frames)[::2], wanted=True)
    assert len(three.runs._spaces[Epoch.ONE_RTT].ack_queue) == MAX_ACK_RANGES
    three.answer(lost=False)


def test_a_run_from_another_address_moves_the_connection_there() -> None:
    three = Trio()
    elsewhere = ("198.51.100.7", 7)
    run = packets(three.client, *(stream_frame(0, 10 * n, bytes(10)) for n in range(5)))
    three.runs.receive_run(run, elsewhere, three.now_s)
    assert three.runs._network_paths[0].addr == elsewhere
    assert not three.runs._network_paths[0].is_validated


def test_a_bulk_takes_the_short_way_and_little_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[bytes] = []
    original = QuicConnection.receive_datagram

    def receive(self: QuicConnection, data: bytes, address: tuple[str, int], now: float) -> None:
        alone.append(data)
        original(self, data, address, now)

    monkeypatch.setattr(QuicConnection, "receive_datagram", receive)
    pair = Pair(
        dataclasses.replace(ROOMY, request_window_bytes=2**20, connection_window_bytes=2**21)
    )
    alone.clear()
    pair.client.send_stream_data(0, bytes(2**19), end_stream=True)
    pair.run(100)
    assert any(isinstance(event, events.StreamDataReceived) for event in pair.at_server)
    assert len(alone) < 2**19 / 1200 / 5
