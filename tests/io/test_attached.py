"""What a node makes of the scripts that drive its trainer, where these do what they should not."""

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio

from p2pd.core.encoding import decode, encode
from p2pd.errors import UsageError, WorkloadError
from p2pd.io.attached import AttachedWorker, Script
from p2pd.io.frames import read_frame, write_frame
from p2pd.io.worker_child import WorkerSettings
from p2pd.workload.protocol import LIMIT_BYTES, Answer, Call, Failure, Outcome, Request

SETTINGS = WorkerSettings(module="somebodys", build_s=0.1, grace_s=0.1)
Play = Callable[[trio.SocketStream], Awaitable[None]]


def said(play: Play, settings: WorkerSettings = SETTINGS) -> tuple[str, bool]:
    """What the node says of the call to build, of a script that plays; and whether it has left the script."""
    found: list[tuple[str, bool]] = []

    async def main() -> None:
        ours, theirs = (
            trio.SocketStream(trio.socket.from_stdlib_socket(s)) for s in socket.socketpair()
        )
        worker = AttachedWorker(settings, None)  # type: ignore[arg-type]  # no lease is trained
        script = Script(ours, 1234)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(script.attend)
                worker.take(script)
                nursery.start_soon(play, theirs)
                with pytest.raises(WorkloadError) as error:
                    await worker.info()
                found.append((str(error.value), script.ended.is_set()))
                nursery.cancel_scope.cancel()
        await theirs.aclose()
        await ours.aclose()

    trio.run(main)
    return found[0]


async def asked(stream: trio.SocketStream) -> Request:
    data = await read_frame(stream, LIMIT_BYTES)
    assert data is not None
    return decode(Request, data)


async def answer(stream: trio.SocketStream, number: int, outcome: Outcome, body: bytes) -> None:
    await write_frame(stream, encode(Answer(number, outcome, body)))


def test_a_script_that_dies_in_a_call_is_said_at_once() -> None:
    async def play(stream: trio.SocketStream) -> None:
        await asked(stream)
        await stream.aclose()

    why = "the script that drove this trainer (process 1234) has ended"
    assert said(play, WorkerSettings(module="x", build_s=3600.0)) == (why, True)


def test_a_script_that_is_late_is_called_off_and_kept_if_it_hears_that() -> None:
    async def play(stream: trio.SocketStream) -> None:
        request = await asked(stream)
        assert (await asked(stream)).call is Call.CANCEL
        await answer(stream, request.number, Outcome.CANCELLED, b"")
        await trio.sleep_forever()

    message, left = said(play, WorkerSettings(module="x", build_s=0.1, grace_s=3600.0))
    assert message.startswith("the script (process 1234) did not build within 0.1 s: raise")
    assert not left


def test_a_script_that_does_not_hear_is_left() -> None:
    async def play(stream: trio.SocketStream) -> None:
        await asked(stream)
        await trio.sleep_forever()

    message, _ = said(play)
    assert message.startswith("the script (process 1234) did not build within 0.1 s")


def test_what_goes_wrong_in_a_script_is_said_in_its_words() -> None:
    async def play(stream: trio.SocketStream) -> None:
        request = await asked(stream)
        failure = Failure("ValueError: no such layer\x1b[2J (net.py:7)")
        await answer(stream, request.number, Outcome.FAILED, encode(failure))
        await trio.sleep_forever()

    assert (
        said(play, WorkerSettings(module="x"))[0] == r"ValueError: no such layer\x1b[2J (net.py:7)"
    )


@pytest.mark.parametrize("frame", [b"\xff\xff", b"\x83\x01\x01"])
def test_a_script_that_answers_nonsense_is_taken_for_ended(frame: bytes) -> None:
    async def play(stream: trio.SocketStream) -> None:
        await asked(stream)
        await write_frame(stream, frame)
        await trio.sleep_forever()

    assert "has ended" in said(play, WorkerSettings(module="x"))[0]


def test_there_is_one_script_at_a_time() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            changes: list[str] = []
            worker = AttachedWorker(SETTINGS, None)  # type: ignore[arg-type]  # no lease is trained
            worker.changed = lambda: changes.append(worker.resting)
            worker.take(Script(stream, 7))
            with pytest.raises(
                UsageError, match=r"another script \(process 7\) drives this trainer"
            ):
                worker.require_free()
            worker.begin()
            worker.end()
            worker.require_free()
            assert changes[0] == ""
            assert "no script drives it" in changes[1]
            await stream.aclose()

    trio.run(main)
