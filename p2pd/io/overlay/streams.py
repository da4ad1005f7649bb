"""One request's stream: reading gives window back, writing waits while enough is under way.

Both halves are always ended, by FIN or by reset: the count of open streams shrinks only then.
Source: RFC 9000 3.
"""

import math
from collections import deque
from typing import Protocol

import trio

from p2pd.errors import UnreachableError

WRITE_BYTES = 256 * 2**10
"""Written at once: small enough that several responses share the backlog."""


class StreamOwner(Protocol):
    """The connection, as its streams see it."""

    def raise_if_over(self) -> None:
        """Raises:
        UnreachableError: the connection has ended.
        """
        ...

    async def room(self, stream_id: int) -> None:
        """Returns when this stream may write more. Raises as raise_if_over."""
        ...

    def write(self, stream_id: int, data: bytes | memoryview, *, last: bool) -> None: ...

    def taken(self, stream_id: int, count: int, *, wanted: bool) -> None: ...

    def end_halves(self, stream_id: int, *, reset: bool, stop: bool) -> None: ...

    def closed(self, stream: "Stream") -> None: ...


class Stream:
    def __init__(self, owner: StreamOwner, stream_id: int) -> None:
        self.id = stream_id
        self.abandoned = trio.CancelScope()
        """Cancelled when nobody waits any more for what is to be written here."""
        self._owner = owner
        self._chunks: deque[bytes] = deque()
        self._arrived = trio.Event()
        self._complete = False  # the other side sent its last byte
        self._reset = False  # the other side gave up sending
        self._stopped = False  # the other side gave up reading
        self._written = False  # our last byte is on its way
        self._closed = False

    async def receive(self) -> bytes:
        """What has arrived, at least one byte; empty at the end.

        Raises:
            UnreachableError: the other side gave up, or the connection ended.
        """
        while not self._chunks:
            if self._complete:
                return b""
            if self._reset:
                raise UnreachableError("the peer gave the request up")
            self._owner.raise_if_over()
            self._arrived = trio.Event()
            await self._arrived.wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._owner.taken(self.id, len(data), wanted=not self._complete)
        return data

    async def send(self, *parts: bytes, stall_s: float = math.inf) -> None:
        """Writes all of parts, and the end; returns early if the other side stops reading.

        Raises:
            UnreachableError: the connection ended, or had no room for stall_s.
        """
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(view), WRITE_BYTES):
                with trio.move_on_after(stall_s) as stall:
                    await self._owner.room(self.id)
                if stall.cancelled_caught:
                    raise UnreachableError(f"the peer took nothing for {stall_s:g} s")
                if self._stopped:
                    return
                self._owner.write(self.id, view[start : start + WRITE_BYTES], last=False)
        self._owner.raise_if_over()
        if not self._stopped:
            self._owner.write(self.id, b"", last=True)
            self._written = True

    def close(self) -> None:
        """Ends both halves: what was not sent is reset, what was not received is declined."""
        if self._closed:
            return
        self._closed = True
        pending = sum(map(len, self._chunks))
        self._chunks.clear()
        if pending:
            self._owner.taken(self.id, pending, wanted=False)
        receiving = not (self._complete or self._reset)
        self._owner.end_halves(self.id, reset=not self._written, stop=receiving)
        if not receiving:
            self._owner.closed(self)

    def feed(self, data: bytes, *, complete: bool) -> None:
        self._complete = self._complete or complete
        if self._closed:
            self._owner.taken(self.id, len(data), wanted=False)
            if complete:
                self._owner.closed(self)
            return
        if data:
            self._chunks.append(data)
        self._arrived.set()

    def reset(self) -> None:
        """The other side gave up sending; what it sent before does not count."""
        self._reset = True
        self._chunks.clear()
        self._arrived.set()
        if self._closed:
            self._owner.closed(self)

    def stopped(self) -> None:
        """The other side reads no more."""
        self._stopped = True
        self.abandoned.cancel()

    def cut(self) -> None:
        """The connection has ended."""
        self._arrived.set()
        self.abandoned.cancel()
