"""Two connections that exchange their datagrams in memory: back-pressure, and streams left half done."""

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from p2pd.errors import UnreachableError
from p2pd.io.overlay import OverlaySettings
from p2pd.io.overlay.connection import PATIENCE_S, CloseCode
from p2pd.io.overlay.requests import Answers, ask
from p2pd.io.overlay.streams import WRITE_BYTES
from tests.io.overlay.connection_bench import MIB, SETTINGS, Bench, play


def test_i09_a_response_that_is_not_read_takes_no_memory_on_either_side() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        asking, answering = await bench.open()
        nursery.start_soon(answering.send, bytes(32 * MIB))
        await bench.run(300)
        assert MIB <= bench.backlog_bytes <= MIB + WRITE_BYTES
        assert sum(map(len, asking._chunks)) == SETTINGS.stream_window_bytes

    play(scene)


def test_a_response_that_is_not_read_holds_up_no_other() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        _, unread = await bench.open()
        nursery.start_soon(unread.send, bytes(32 * MIB))
        await bench.run(100)
        assert bench.listener.quic.backlog_bytes() >= SETTINGS.backlog_bytes
        asking, answering = await bench.open()
        nursery.start_soon(answering.send, bytes(MIB))
        received = 0

        async def read() -> None:
            nonlocal received
            while data := await asking.receive():
                received += len(data)

        nursery.start_soon(read)
        await bench.run(200)
        assert received == MIB
        assert bench.backlog_bytes <= MIB + 2 * WRITE_BYTES

    play(scene)


def test_i09_as_many_unread_responses_as_there_may_be_leave_the_control_lane_open() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        bench.listener.connection.send_control(b"hello")
        for _ in range(SETTINGS.requests_per_peer):
            _, answering = await bench.open()
            nursery.start_soon(answering.send, bytes(4 * MIB))
        await bench.run(300)
        pieces = SETTINGS.requests_per_peer * WRITE_BYTES
        assert bench.backlog_bytes <= SETTINGS.backlog_bytes + pieces
        bench.listener.connection.send_control(b"still open")
        await bench.run(5)
        assert bench.dialler.heard == [b"still open"]

    play(scene)


def test_a_response_goes_on_when_it_is_read_again() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        asking, answering = await bench.open()
        sent = bytes(range(256)) * (4 * MIB // 256)
        nursery.start_soon(answering.send, sent)
        await bench.run(100)
        received = bytearray()

        async def read() -> None:
            while data := await asking.receive():
                received.extend(data)

        nursery.start_soon(read)
        await bench.run(200)
        assert received == sent
        assert bench.backlog_bytes <= MIB + WRITE_BYTES

    play(scene)


def test_responses_given_up_by_the_hundred_leave_the_window_as_it_was() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        for _ in range(60):
            asking, answering = await bench.open()
            nursery.start_soon(answering.send, bytes(2 * MIB))
            await bench.run(20)
            asking.close()
            await bench.run(10)
            answering.close()
            await bench.run(5)
        for side in (bench.dialler, bench.listener):
            assert side.connection._streams == {}
            assert side.quic.backlog_bytes() == 0
        asking, answering = await bench.open()
        nursery.start_soon(answering.send, b"x" * SETTINGS.stream_window_bytes)
        await bench.run(20)
        assert len(await asking.receive()) == SETTINGS.stream_window_bytes

    play(scene)


def test_whole_responses_that_nobody_reads_leave_the_window_as_it_was() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        for _ in range(20):
            asking, answering = await bench.open()
            await answering.send(bytes(100_000))
            await bench.run(5)
            asking.close()
            answering.close()
            await bench.run(5)
        await whole_response_arrives(bench)

    play(scene)


def test_whole_responses_that_cross_their_refusal_leave_the_window_as_it_was() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        for _ in range(20):
            asking, answering = await bench.open()
            await answering.send(bytes(100_000))
            asking.close()
            for _ in range(5):
                bench.now_s += 0.002
                bench.carry(bench.listener, bench.dialler)
            bench.dialler.connection.dispatch()
            answering.close()
            await bench.run(10)
        assert bench.dialler.connection._streams == {}
        await whole_response_arrives(bench)

    play(scene)


async def whole_response_arrives(bench: Bench) -> None:
    asking, answering = await bench.open()
    await answering.send(bytes(100_000))
    await bench.run(10)
    assert sum(map(len, asking._chunks)) == 100_000


def test_a_request_given_up_while_it_waits_for_a_stream_leaves_the_connection_whole() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        held = [await bench.open() for _ in range(SETTINGS.requests_per_peer)]
        assert bench.dialler.quic.streams_left() == 0
        async with trio.open_nursery() as waiting:
            waiting.start_soon(bench.dialler.connection.open_stream)
            await bench.run(10)
            waiting.cancel_scope.cancel()
        for asking, answering in held:
            nursery.start_soon(answering.send, b"!")
            await bench.run(5)
            assert await asking.receive() == b"!"
            asking.close()
            answering.close()
        await bench.run(20)
        await bench.open()

    play(scene)


def test_a_request_that_was_given_up_before_it_arrives_is_not_answered() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        for _ in range(20):
            stream = await bench.dialler.connection.open_stream()
            await stream.send(b"?")
            lost = bench.dialler.quic.datagrams_to_send(bench.now_s)
            assert lost
            stream.close()
            await bench.run(200)
            (late,) = bench.listener.streams
            assert late.abandoned.cancel_called
            await late.send(b"!")
            late.close()
            bench.listener.streams.clear()
            await bench.run(10)
        assert bench.listener.connection._streams == {}

    play(scene)


def test_a_peer_that_resets_its_streams_gets_them_back() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        for _ in range(20):
            stream = await bench.dialler.connection.open_stream()
            stream.close()
            await bench.run(10)
            for other in bench.listener.streams:
                with pytest.raises(UnreachableError, match="gave the request up"):
                    await other.receive()
                other.close()
            bench.listener.streams.clear()
            await bench.run(10)
        assert bench.listener.connection._streams == {}

    play(scene)


def test_a_response_that_nobody_takes_is_given_up() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        _, answering = await bench.open()
        with pytest.raises(UnreachableError, match=r"took nothing for 0\.05 s"):
            await answering.send(bytes(8 * MIB), stall_s=0.05)
        answering.close()
        assert bench.listener.quic.backlog_bytes() == 0

    play(scene)


def test_everything_that_waits_ends_with_the_connection() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        asking, answering = await bench.open()
        for _ in range(SETTINGS.requests_per_peer - 1):
            await bench.open()
        ended = []

        async def fails(act: Callable[[], Awaitable[object]]) -> None:
            with pytest.raises(UnreachableError, match="the link ended: enough"):
                await act()
            ended.append(act)

        listener, dialler = bench.listener.connection, bench.dialler.connection
        nursery.start_soon(fails, lambda: answering.send(bytes(8 * MIB)))
        nursery.start_soon(fails, asking.receive)
        nursery.start_soon(fails, dialler.open_stream)
        nursery.start_soon(fails, lambda: ask(dialler, b"", 1))
        nursery.start_soon(dialler.ping)
        await wait_all_tasks_blocked()
        listener.close(CloseCode.LEFT, "enough")
        await bench.run(5)
        assert len(ended) == 4
        assert dialler.ending is not None
        assert (dialler.ending.text, dialler.ending.by_peer) == ("enough", True)
        assert not dialler.send_control(b"")

    play(scene)


def test_a_patient_message_goes_with_the_next_thing_that_is_said() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        dialler, listener = bench.dialler.connection, bench.listener
        for message in (b"for people", b"for people too"):
            assert dialler.send_control(message, patient=True)
        until_s = dialler.put_off_until_s
        assert trio.current_time() < until_s <= trio.current_time() + PATIENCE_S
        await bench.run(5)
        assert listener.heard == []
        await bench.open()  # a request; its bytes are another stream's
        assert listener.heard == [b"for people", b"for people too"]
        assert dialler.put_off_until_s == math.inf

    play(scene)


def test_i09_patient_messages_are_bounded_like_others() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        dialler, message = bench.dialler.connection, bytes(SETTINGS.message_bytes)
        sent = 0
        while dialler.send_control(message, patient=True):
            sent += 1
            assert sent < 100
        assert sent == SETTINGS.control_bytes // (len(message) + 4)
        assert not dialler.send_control(message)

    play(scene)


def test_what_was_put_off_is_dropped_with_the_connection() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        dialler = bench.dialler.connection
        assert dialler.send_control(b"for people", patient=True)
        dialler.close(CloseCode.LEFT, "enough")
        dialler.say_put_off()
        await bench.run(5)
        assert bench.listener.heard == []

    play(scene)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (b"", "before its head"),
        (bytes(8), "before its head"),
        (b"\x02" + bytes(8), "status 2"),
        (b"\x00" + (5).to_bytes(8) + b"four", "4 bytes instead of 5"),
        (b"\x00" + (3).to_bytes(8) + b"four", "4 bytes instead of 3"),
        (b"\x00" + (101).to_bytes(8), "101 bytes, allowed are 100"),
        (b"\x01" + (1025).to_bytes(8), "1025 bytes, allowed are 1024"),
        (b"\x01" + (4).to_bytes(8) + b"\xffno\n", "refused: \ufffdno"),
    ],
)
def test_i08_a_malformed_response_is_a_remote_error(response: bytes, error: str) -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        found = []

        async def attempt() -> None:
            with pytest.raises(Exception, match=error) as caught:
                await ask(bench.dialler.connection, b"?", 100)
            found.append(caught.typename)

        nursery.start_soon(attempt)
        await bench.run(5)
        nursery.start_soon(bench.listener.streams[0].send, response)
        await bench.run(10)
        assert found == ["RemoteError"]

    play(scene)


def test_a_request_that_stops_coming_is_given_up() -> None:
    async def scene(bench: Bench, nursery: trio.Nursery) -> None:
        stream = await bench.dialler.connection.open_stream()
        bench.dialler.connection.write(stream.id, b"begins", last=False)
        await bench.run(5)

        async def never(request: bytes) -> bytes:
            raise AssertionError(request)

        answers = Answers(OverlaySettings(stall_s=0.05))
        await answers.answer(bench.listener.connection, bench.listener.streams[0], never)
        await bench.run(5)
        with pytest.raises(UnreachableError, match="gave the request up"):
            await stream.receive()

    play(scene)
