"""Length-prefixed frames over trio streams: how the daemon talks to the processes that it starts.

A frame is its length in bytes (4 bytes, big-endian), then that many bytes. The other side of the
same framing, blocking, is p2pd.tensors.frames.
"""

import trio

from p2pd.errors import RemoteError, UnreachableError
from p2pd.tensors.frames import PREFIX


async def read_frame(stream: trio.abc.ReceiveStream, limit_bytes: int) -> bytes | None:
    """The next frame, or None at the end of the stream.

    A cancelled read may have taken part of a frame: the stream is then of no further use.

    Raises:
        RemoteError: the frame is longer than limit_bytes, or the stream ended inside it.
    """
    prefix = await _receive(stream, PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < PREFIX.size:
        raise RemoteError("stream ended inside a frame")
    (size_bytes,) = PREFIX.unpack(prefix)
    if size_bytes > limit_bytes:
        raise RemoteError(f"frame of {size_bytes} bytes exceeds the limit of {limit_bytes}")
    data = await _receive(stream, size_bytes)
    if len(data) < size_bytes:
        raise RemoteError("stream ended inside a frame")
    return data


async def write_frame(stream: trio.abc.SendStream, data: bytes) -> None:
    """Writes one whole frame.

    Raises:
        UnreachableError: nobody reads any more.
    """
    try:
        await stream.send_all(PREFIX.pack(len(data)) + data)
    except trio.BrokenResourceError as error:
        raise UnreachableError("the process at the other end of the pipe has ended") from error


async def _receive(stream: trio.abc.ReceiveStream, size_bytes: int) -> bytes:
    """Fewer bytes only at the end of the stream."""
    parts: list[bytes] = []
    missing = size_bytes
    while missing:
        part = await stream.receive_some(min(missing, 2**20))
        if not part:
            break
        parts.append(bytes(part))
        missing -= len(part)
    return b"".join(parts)
