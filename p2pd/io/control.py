"""How the command line talks to the node of a data directory: one line of JSON each way.

A Unix socket in the data directory, for its owner only. A line asks {"call": ...}; the line that
comes back is {"answer": {...}} or {"error": "why"}.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.errors import P2pError, RemoteError, StoreError, UnreachableError, advice
from p2pd.io.durable import storing

NAME = "control"
STRANGER = (
    "what answers there is not a p2pd node of this version: end it, or name another directory"
)
REQUEST_BYTES = 64 * 2**10
"""Longest request line."""
RESPONSE_BYTES = 64 * 2**20
"""Longest line that the asking side takes."""
READ_BYTES = 64 * 2**10
ADDRESS_BYTES = 100
"""Socket addresses end at 108 bytes on Linux, at 104 on macOS (sockaddr_un)."""
BACKLOG = 32


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An answer after which the connection is for something else than lines."""

    answer: dict[str, Any]
    serve: Callable[[trio.SocketStream], Awaitable[None]]
    """Until it ends. Whoever asked sends nothing before it has read the answer."""


Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | Upgrade]]

logger = logging.getLogger(__name__)


class NotRunningError(UnreachableError):
    """No node runs in that data directory."""


async def serve_control(
    directory: Path,
    answer: Answer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answers until cancelled. The caller holds the lock of the directory.

    A P2pError that answer raises is told to whoever asked; any other exception is our bug: it is
    logged, and ends that connection only.
    """

    async def connected(stream: trio.SocketStream) -> None:
        try:
            await _serve_connection(stream, answer)
        except trio.BrokenResourceError:
            return  # whoever asked has gone away
        except Exception:
            logger.exception("a control request failed")

    with _listening(directory) as listening:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        task_status.started()
        await trio.serve_listeners(connected, [listener])


async def _serve_connection(stream: trio.SocketStream, answer: Answer) -> None:
    buffer = bytearray()
    while (line := await _read_line(stream, buffer)) is not None:
        reply: dict[str, Any]
        upgrade: Upgrade | None = None
        try:
            found = await answer(_parse(line))
            if isinstance(found, Upgrade):
                upgrade, found = found, found.answer
            reply = {"answer": found}
        except P2pError as error:
            reply = {"error": str(error)}
        await stream.send_all(json.dumps(reply, allow_nan=False).encode() + b"\n")
        if upgrade is not None:
            await upgrade.serve(stream)
            return


async def _read_line(stream: trio.SocketStream, buffer: bytearray) -> bytes | None:
    """None at the end. What follows the line stays in buffer."""
    while b"\n" not in buffer:
        if len(buffer) > REQUEST_BYTES:
            return None
        data = await stream.receive_some(READ_BYTES)
        if not data:
            return None
        buffer += data
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    return line


def _parse(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RemoteError("a request must be one line of JSON, not nested deeply") from error
    if not isinstance(request, dict):
        raise RemoteError('a request must be a JSON object, like {"call": "status"}')
    return request


def ask(directory: Path, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """What the node of a data directory answers. Blocks.

    Raises:
        NotRunningError: there is no node.
        UnreachableError: there is one, but it does not answer.
        P2pError: it refused; the message is its own.
    """
    connection, answer = converse(directory, request, timeout_s)
    connection.close()
    return answer


def converse(
    directory: Path, request: dict[str, Any], timeout_s: float
) -> tuple[socket.socket, dict[str, Any]]:
    """As ask, with the connection, for more. Raises as ask."""
    end_s = time.monotonic() + timeout_s
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _address(directory) as address:
            connection.settimeout(timeout_s)
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = _unwrap(_receive_line(connection, end_s), directory)
    except OSError as error:
        connection.close()
        raise _explained(error, directory, timeout_s) from error
    except P2pError:
        connection.close()
        raise
    connection.settimeout(None)
    return connection, answer


def _explained(error: OSError, directory: Path, timeout_s: float) -> P2pError:
    match error:
        case TimeoutError() | BlockingIOError():
            return UnreachableError(
                f"the node in {directory} does not answer within {timeout_s:g} s: try again, see its log"
            )
        case FileNotFoundError() | ConnectionRefusedError():
            return NotRunningError(
                f"no node is running in {directory}: start it with p2pd run, or name another directory"
            )
        case ConnectionError():
            return UnreachableError(
                f"the node in {directory} ended before it answered: see {directory / 'log'}"
            )
        case _:
            return StoreError(f"{directory / NAME}: {advice(error)}")


def _receive_line(connection: socket.socket, end_s: float) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        data = connection.recv(READ_BYTES)
        if not data or len(received) > RESPONSE_BYTES:
            raise ConnectionResetError
        received += data
    return bytes(received)


def _unwrap(line: bytes, directory: Path) -> dict[str, Any]:
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RemoteError(f"{directory / NAME}: {STRANGER}") from error
    match reply:
        case {"answer": dict() as answer}:
            return answer
        case {"error": str() as why}:
            raise P2pError(why)
        case _:
            raise RemoteError(f"{directory / NAME}: {STRANGER}")


@contextmanager
def _listening(directory: Path) -> Iterator[socket.socket]:
    path = directory / NAME
    with storing(path):
        path.unlink(missing_ok=True)  # of an earlier run: we hold the lock, so nobody listens
    with socket.socket(socket.AF_UNIX) as listening:
        with storing(path), _address(directory) as address:
            listening.bind(address)
            path.chmod(0o600)
            listening.listen(BACKLOG)  # nobody can connect before this, so the mode is in time
        try:
            yield listening
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _address(directory: Path) -> Iterator[str]:
    """A socket address for directory, however long its path is."""
    path = directory / NAME
    if len(os.fsencode(path)) <= ADDRESS_BYTES:
        yield str(path)
        return
    if not Path("/proc/self/fd").is_dir():
        raise StoreError(f"{directory}: the path is too long for a socket: choose a shorter one")
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{NAME}"
    finally:
        os.close(descriptor)
