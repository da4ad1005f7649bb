"""One request and its response on a stream. Bytes.

The request is all of one half; the response begins with its status, one byte, and its length, eight.
"""

import logging
import traceback
from collections.abc import Awaitable, Callable
from enum import IntEnum

import trio

from p2pd.errors import RemoteError, UnreachableError
from p2pd.io.overlay.connection import Connection
from p2pd.io.overlay.settings import OverlaySettings
from p2pd.io.overlay.streams import Stream

HEAD_BYTES = 9
REFUSAL_BYTES = 1024

_log = logging.getLogger(__name__)


Handler = Callable[[bytes], Awaitable[bytes]]


class Status(IntEnum):
    ANSWERED = 0
    REFUSED = 1


async def ask(connection: Connection, message: bytes, limit_bytes: int) -> bytes:
    """The response to message.

    Raises:
        UnreachableError: the connection ended, or the other side gave up.
        RemoteError: it refused, broke the protocol, or answers with more than limit_bytes.
    """
    async with connection.asking:
        stream = await connection.open_stream()
        try:
            await stream.send(message)
            return await _read_response(stream, limit_bytes)
        finally:
            stream.close()


async def _read_response(stream: Stream, limit_bytes: int) -> bytes:
    head, rest = await _read_head(stream)
    size = int.from_bytes(head[1:])
    status = head[0]
    limit = REFUSAL_BYTES if status == Status.REFUSED else limit_bytes
    if status not in (Status.ANSWERED, Status.REFUSED) or size > limit:
        raise RemoteError(f"response with status {status} of {size} bytes, allowed are {limit}")
    body = await _read_rest(stream, rest, size)
    if len(body) != size:
        raise RemoteError(f"response of {len(body)} bytes instead of {size}")
    if status == Status.REFUSED:
        raise RemoteError(f"refused: {body.decode(errors='replace')}")
    return body


async def _read_head(stream: Stream) -> tuple[bytes, bytes]:
    data = b""
    while len(data) < HEAD_BYTES:
        more = await stream.receive()
        if not more:
            raise RemoteError("response ends before its head")
        data += more
    return data[:HEAD_BYTES], data[HEAD_BYTES:]


async def _read_rest(stream: Stream, data: bytes, limit_bytes: int) -> bytes:
    """Everything up to the end of the stream, data first, but little more than limit_bytes."""
    parts, size = [data], len(data)
    while size <= limit_bytes and (data := await stream.receive()):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


class Answers:
    """Answers the requests that come in; one instance per transport."""

    def __init__(self, settings: OverlaySettings) -> None:
        self._settings = settings
        self._logged: set[tuple[str, str]] = set()

    async def answer(self, connection: Connection, stream: Stream, handler: Handler) -> None:
        """Reads the request, has it answered, writes the response; in any case ends the stream."""
        try:
            with stream.abandoned:
                async with connection.answering:
                    status, body = await self._respond(stream, handler)
                    size = len(body).to_bytes(HEAD_BYTES - 1)
                    await stream.send(bytes([status]) + size, body, stall_s=self._settings.stall_s)
        except UnreachableError:
            # Nobody waits for this response any more.
            return
        finally:
            stream.close()

    async def _respond(self, stream: Stream, handler: Handler) -> tuple[Status, bytes]:
        try:
            request = await self._read_request(stream)
            return Status.ANSWERED, await self._handle(request, handler)
        except RemoteError as error:
            return Status.REFUSED, str(error).encode()[:REFUSAL_BYTES]

    async def _handle(self, request: bytes, handler: Handler) -> bytes:
        try:
            return await handler(request)
        except RemoteError:
            raise
        except Exception as error:  # the border of a request's task: the node goes on
            self._log_once(error)
            raise RemoteError("internal error") from error

    async def _read_request(self, stream: Stream) -> bytes:
        limit = self._settings.request_bytes
        with trio.move_on_after(self._settings.stall_s):
            request = await _read_rest(stream, b"", limit)
            if len(request) > limit:
                raise RemoteError(f"request exceeds {limit} bytes")
            return request
        raise UnreachableError("the request did not come in full")

    def _log_once(self, error: Exception) -> None:
        """Logs each kind and place of failure once: a peer could repeat it for ever."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = (type(error).__name__, f"{last.filename}:{last.lineno}")
        if place not in self._logged:
            self._logged.add(place)
            _log.error("a request could not be answered", exc_info=error)
