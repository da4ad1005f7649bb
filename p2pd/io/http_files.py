"""One file over HTTP(S), from some byte on. Blocking: call it from a thread. Seconds, bytes.

Servers without ranges send from the beginning, and what is not wanted is skipped. Source: RFC 9110, 14 and 15.4.
"""

import http.client
import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from p2pd.config.names import check_url
from p2pd.errors import RemoteError, UnreachableError, UsageError, printable

REDIRECTS_MOST = 5
REDIRECTED = (301, 302, 303, 307, 308)
WHOLE, PART = 200, 206
SKIP_BYTES = 2**16
CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")
NUMBER = re.compile(r"\d{1,15}")


@dataclass(frozen=True, slots=True)
class _Answer:
    sock: socket.socket
    """Of the connection, which forgets it once a server says that it will close it."""
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse

    def close(self) -> None:
        """A read that is under way in another thread ends first: it holds what is closed here."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()
        self.sock.close()


@dataclass(frozen=True, slots=True)
class HttpStream:
    """The body of a response, from the byte that was asked for."""

    url: str
    answer: _Answer

    def read(self, size: int) -> bytes:
        """Up to so many bytes; none at the end. Raises UnreachableError: the connection failed."""
        try:
            return self.answer.response.read(size)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(self.url, error) from error

    def close(self) -> None:
        self.answer.close()


def below(url: str, name: str) -> str:
    """The URL of a file in the directory that a URL names."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}", fragment=""))


def open_url(url: str, size_bytes: int | None, start: int, patience_s: float) -> HttpStream:
    """The file of a URL, from byte start on; size_bytes is what all of it must have, None for any.

    Raises:
        UnreachableError: it cannot be had now.
        RemoteError: what is there is of another size.
    """
    here = url
    for _ in range(REDIRECTS_MOST + 1):
        answer = _ask(here, start, patience_s)
        if answer.response.status not in REDIRECTED:
            return _opened(here, answer, size_bytes, start)
        target = answer.response.headers.get("Location", "")
        answer.close()
        here = _redirected(here, target)
    raise UnreachableError(f"{url}: redirects more than {REDIRECTS_MOST} times")


def _ask(url: str, start: int, patience_s: float) -> _Answer:
    parts = urlsplit(url)
    connection = _connection(parts, patience_s)
    headers = {"User-Agent": "p2pd", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    try:
        connection.connect()
        sock = connection.sock
        connection.request("GET", target, headers=headers)
        return _Answer(sock, connection, connection.getresponse())
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        raise _failed(url, error) from error


def _connection(parts: SplitResult, patience_s: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=patience_s)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, parts.port, timeout=patience_s, context=context)


def _redirected(url: str, target: str) -> str:
    """Raises UnreachableError: it leads where nobody should follow."""
    try:
        found = urljoin(url, target)
        check_url(found)
    except (ValueError, UsageError) as error:
        raise UnreachableError(f"{url}: redirects to {target!r:.200}, which is no URL") from error
    if urlsplit(url).scheme == "https" and urlsplit(found).scheme == "http":
        raise UnreachableError(f"{url}: redirects to {found!r:.200}, which is not encrypted")
    return found


def _opened(url: str, answer: _Answer, size_bytes: int | None, start: int) -> HttpStream:
    stream = HttpStream(url, answer)
    try:
        begins = _begins(url, answer.response, size_bytes, start)
        _check_length(url, answer.response, size_bytes, begins)
        _skip(stream, start - begins)
    except (UnreachableError, RemoteError):
        stream.close()
        raise
    return stream


def _begins(
    url: str, response: http.client.HTTPResponse, size_bytes: int | None, start: int
) -> int:
    """The first byte of what comes: 0 where the server has no ranges."""
    if response.status == WHOLE:
        return 0
    if response.status != PART:
        raise UnreachableError(f"{url}: answers {response.status} {response.reason!r:.80}")
    said = response.headers.get("Content-Range", "")
    match = CONTENT_RANGE.fullmatch(said)
    if match is None:
        raise RemoteError(f"{url}: gives the range {said!r:.80}, which is none")
    if size_bytes is not None and match[3] not in ("*", str(size_bytes)):
        raise RemoteError(f"{url}: has {match[3]} bytes, the data set names {size_bytes}")
    if int(match[1]) > start:
        raise RemoteError(f"{url}: begins at byte {match[1]}, asked for {start}")
    return int(match[1])


def _check_length(
    url: str, response: http.client.HTTPResponse, size_bytes: int | None, begins: int
) -> None:
    said = response.headers.get("Content-Length", "")
    if size_bytes is None or NUMBER.fullmatch(said) is None:
        return
    if int(said) + begins != size_bytes:
        raise RemoteError(f"{url}: has {int(said) + begins} bytes, the data set names {size_bytes}")


def _skip(stream: HttpStream, count: int) -> None:
    while count > 0:
        data = stream.read(min(count, SKIP_BYTES))
        if not data:
            return  # who reads on finds the end
        count -= len(data)


def _failed(url: str, error: Exception) -> UnreachableError:
    return UnreachableError(f"{url}: {printable(str(error))[:200] or type(error).__name__}")
