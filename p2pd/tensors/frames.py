"""Length-prefixed frames over pipes, blocking: for the processes that the daemon starts.

A frame is its length in bytes (4 bytes, big-endian), then that many bytes. The daemon's side of the
same framing is p2pd.io.frames. Imports no numpy, so that any process can afford it.
"""

import os
import struct

from p2pd.errors import RemoteError

PREFIX = struct.Struct(">I")


def read_frame(descriptor: int, limit_bytes: int) -> bytes | None:
    """The next frame, or None at the end of the pipe.

    Raises:
        RemoteError: the frame is longer than limit_bytes, or the pipe ended inside it.
    """
    prefix = _read(descriptor, PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < PREFIX.size:
        raise RemoteError("pipe ended inside a frame")
    (size_bytes,) = PREFIX.unpack(prefix)
    if size_bytes > limit_bytes:
        raise RemoteError(f"frame of {size_bytes} bytes exceeds the limit of {limit_bytes}")
    data = _read(descriptor, size_bytes)
    if len(data) < size_bytes:
        raise RemoteError("pipe ended inside a frame")
    return data


def write_frame(descriptor: int, data: bytes) -> None:
    """Writes one whole frame; OSError when nobody reads any more."""
    rest = memoryview(PREFIX.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read(descriptor: int, size_bytes: int) -> bytes:
    """Fewer bytes only at the end of the pipe."""
    parts: list[bytes] = []
    missing = size_bytes
    while missing:
        part = os.read(descriptor, min(missing, 2**20))
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
