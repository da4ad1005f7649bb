"""What a worker is at, where its daemon sees it even while it hangs: a page of shared memory.

First how far the call has come; then, once it has hung or crashed, a traceback that Python writes without the help
of the code that hangs. What the user's code may do to the page costs a message its sense, and nothing else.
Units: seconds; nanoseconds of the monotonic clock, which all processes share.
"""

import faulthandler
import os
import re
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic_ns

FORM = struct.Struct("=QQQ")
"""Steps of the call, when the last one began, the thread that carries it out."""
TRACE_AT = 64
TRACE_BYTES = 64 * 2**10
"""Of a traceback that are looked at."""
THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]{1,16})", re.MULTILINE)
FRAME = re.compile(r'^  File "(.*)", line (\d{1,9}) in (.*)$', re.MULTILINE)
LOADER = "/torch/utils/data/"
GROUP = "/p2pd/workload/devices/group.py"


def new_page() -> int:
    """A descriptor that both sides hold."""
    if sys.platform == "linux":
        return os.memfd_create("p2pd-worker")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def identity(descriptor: int) -> tuple[int, int] | None:
    """Of the file behind a descriptor; None where it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Page:
    """The worker's side."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = identity(descriptor)
        self._steps = 0

    def begin(self, limit_s: float) -> None:
        """A call: if it is not over by then, a traceback is written of where it is."""
        self._steps = 0
        if not self._is_ours():
            return
        os.ftruncate(self._descriptor, TRACE_AT)
        os.lseek(self._descriptor, TRACE_AT, os.SEEK_SET)
        self._write()
        faulthandler.enable(self._descriptor, all_threads=True)
        if limit_s > 0:
            faulthandler.dump_traceback_later(limit_s, file=self._descriptor)

    def step(self) -> None:
        self._steps += 1
        if self._is_ours():
            self._write()

    def end(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    def _is_ours(self) -> bool:
        """The user's code may have closed it, and then opened a file of its own under this number."""
        return self._identity is not None and identity(self._descriptor) == self._identity

    def _write(self) -> None:
        content = FORM.pack(self._steps, monotonic_ns(), threading.main_thread().ident or 0)
        os.pwrite(self._descriptor, content, 0)


@dataclass(frozen=True, slots=True)
class Frame:
    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What the page says of the call that is, or was, under way."""

    steps: int
    since_s: float
    """How long ago the last step began, or the call where there was none."""
    frames: tuple[Frame, ...]
    """Innermost first; empty while it neither hangs nor has crashed."""

    @property
    def doing(self) -> str:
        if any(LOADER in frame.path for frame in self.frames):
            return "waiting for the data loader"
        if any(frame.path.endswith(GROUP) for frame in self.frames):
            return "waiting for another worker"
        return "in one step"


def look(descriptor: int) -> Seen:
    """The daemon's side."""
    head = os.pread(descriptor, FORM.size, 0)
    if len(head) < FORM.size:
        return Seen(0, 0.0, ())
    steps, since_ns, thread = FORM.unpack(head)
    text = os.pread(descriptor, TRACE_BYTES, TRACE_AT).decode(errors="replace")
    return Seen(steps, max(0.0, (monotonic_ns() - since_ns) / 1e9), tuple(_frames(text, thread)))


def _frames(text: str, thread: int) -> Iterator[Frame]:
    """Of the thread that crashed, or of the one that carries out the call."""
    starts = list(THREAD.finditer(text))
    for number, start in enumerate(starts):
        if start.group().startswith("Current") or int(start.group(1), 16) == thread:
            end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
            for found in FRAME.finditer(text, start.start(), end):
                yield Frame(found.group(1), int(found.group(2)), found.group(3))
            return
