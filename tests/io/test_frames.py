import os

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.frames import read_frame, write_frame
from p2pd.tensors import frames as blocking


def read_all(raw: bytes, limit_bytes: int) -> tuple[list[bytes], bool]:
    """Frames of raw, and whether they ended with a RemoteError."""
    found: list[bytes] = []

    async def main() -> bool:
        send, receive = trio.testing.memory_stream_one_way_pair()
        await send.send_all(raw)
        send.close()
        try:
            while (frame := await read_frame(receive, limit_bytes)) is not None:
                found.append(frame)
        except RemoteError:
            return True
        return False

    return found, trio.run(main)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_give_frames_or_a_remote_error_and_both_sides_agree(raw: bytes) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, raw)
    os.close(write_end)
    found: list[bytes] = []
    failed = False
    try:
        while (frame := blocking.read_frame(read_end, 32)) is not None:
            found.append(frame)
    except RemoteError:
        failed = True
    finally:
        os.close(read_end)
    assert read_all(raw, 32) == (found, failed)


def test_frames_cross_a_pipe_between_the_two_sides() -> None:
    frames = [b"", b"x", bytes(300_000)]

    def read_until_the_end(descriptor: int) -> list[bytes]:
        seen = []
        while (frame := blocking.read_frame(descriptor, 2**20)) is not None:
            seen.append(frame)
        return seen

    async def main() -> None:
        read_end, write_end = os.pipe()
        seen: list[bytes] = []

        async def child() -> None:
            seen.extend(await trio.to_thread.run_sync(read_until_the_end, read_end))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)
                async with trio.lowlevel.FdStream(write_end) as stream:
                    for frame in frames:
                        await write_frame(stream, frame)
        os.close(read_end)
        assert seen == frames

    trio.run(main)


def test_a_blocking_write_is_read_by_the_daemon() -> None:
    async def main() -> None:
        read_end, write_end = os.pipe()
        blocking.write_frame(write_end, b"answer")
        os.close(write_end)
        async with trio.lowlevel.FdStream(read_end) as stream:
            assert await read_frame(stream, 6) == b"answer"
            assert await read_frame(stream, 6) is None

    trio.run(main)


def test_writing_to_a_process_that_ended_says_so() -> None:
    async def main() -> None:
        read_end, write_end = os.pipe()
        os.close(read_end)
        async with trio.lowlevel.FdStream(write_end) as stream:
            with pytest.raises(UnreachableError, match="ended"):
                await write_frame(stream, b"anybody?")

    trio.run(main)
