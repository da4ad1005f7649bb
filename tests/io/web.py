"""A web server for tests that misbehaves in the way that the first part of a path says."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

RANGE = re.compile(r"bytes=(\d+)-")


@dataclass
class Web:
    url: str
    directory: Path
    asked: Counter[str] = field(default_factory=Counter)
    """Requests, by path and first byte."""
    over: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: Web

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's own name
        """Tests say nothing."""

    def do_GET(self) -> None:
        _, how, *rest = self.path.partition("?")[0].split("/")
        match = RANGE.fullmatch(self.headers.get("Range", ""))
        start = int(match[1]) if match else 0
        self.web.asked[f"{self.path} {start}"] += 1
        misbehave = getattr(self, f"how_{how}", None)
        if misbehave is not None:
            misbehave("/".join(rest), start)
            return
        self._send("/".join(rest), start, ranges=how != "flat")

    def _send(self, name: str, start: int, *, ranges: bool, extra: int = 0, cut: int = 0) -> None:
        path = self.web.directory / name
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        part = data[start:] if ranges else data
        self.send_response(206 if ranges and start else 200)
        if ranges and start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part) + extra))
        self.end_headers()
        self.wfile.write(part[: len(part) - cut])
        self.close_connection = bool(extra or cut)

    def how_moved(self, name: str, start: int) -> None:
        self._redirect(f"/good/{name}")

    def how_circle(self, name: str, start: int) -> None:
        self._redirect(self.path)

    def how_away(self, name: str, start: int) -> None:
        self._redirect("file:///etc/passwd")

    def _redirect(self, where: str) -> None:
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def how_hanging(self, name: str, start: int) -> None:
        self.web.over.wait()

    def how_dripping(self, name: str, start: int) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        while not self.web.over.wait(0.01):
            try:
                self.wfile.write(b"x")
            except OSError:
                return

    def how_short(self, name: str, start: int) -> None:
        self._send(name, start, ranges=True, cut=1)

    def how_long(self, name: str, start: int) -> None:
        self._send(name, start, ranges=True, extra=5)

    def how_lying(self, name: str, start: int) -> None:
        data = (self.web.directory / name).read_bytes()[start:]
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(bytes(len(data)))

    def how_odd(self, name: str, start: int) -> None:
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start + 1}-{start + 2}/*")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"xx")

    def how_garbage(self, name: str, start: int) -> None:
        self.wfile.write(b"\xff" * 100 + b"\r\n\r\n")
        self.close_connection = True


@contextmanager
def serving(directory: Path) -> Iterator[Web]:
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    web = Web(f"http://127.0.0.1:{server.server_address[1]}", directory)
    cast("Any", handler).web = web
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        web.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
