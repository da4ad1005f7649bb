"""What can be seen of the workload's process: its output, on its way to the log, and what it is at. Seconds, bytes.

The last lines are kept, and a flood is cut short.
"""

from collections import deque
from collections.abc import Callable

import trio

KEPT = 20
"""Lines that are kept."""
BURST_BYTES = 2**20
"""That may be printed at once."""
RATE_BYTES_S = 2**16
"""That may be printed for long: more would cost the event loop its time and the log its past."""
LOOK_S = 1.0


class WorkerLines:
    def __init__(self, write: Callable[[str], None], now_s: Callable[[], float]) -> None:
        self._write = write
        self._now_s = now_s
        self._last: deque[str] = deque(maxlen=KEPT)
        self._left_out = 0
        self._room_bytes = float(BURST_BYTES)
        self._filled_s = now_s()
        self.doing: Callable[[], str] = str
        """What the process is at, in a few words; empty while it waits, or where there is none."""

    def say(self, line: str) -> None:
        self._last.append(line)
        self._fill()
        size_bytes = len(line.encode(errors="replace")) + 1
        if self._left_out or self._room_bytes < size_bytes:
            self._left_out += 1
        else:
            self._room_bytes -= size_bytes
            self._write(line)

    def last(self) -> tuple[str, ...]:
        return tuple(self._last)

    async def run(self) -> None:
        """Ends a flood: says how much was left out, and how it went on in the end."""
        while True:
            await trio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        self._fill()
        if not self._left_out:
            return
        kept = min(self._left_out, len(self._last))
        ending = self.last()[-kept:]
        needed = sum(len(line.encode(errors="replace")) + 1 for line in ending)
        if self._room_bytes < min(needed, BURST_BYTES):
            return
        self._room_bytes -= needed
        if self._left_out > kept:
            self._write(f"({self._left_out - kept} lines of the workload are left out here)")
        self._left_out = 0
        for line in ending:
            self._write(line)

    def _fill(self) -> None:
        now_s = self._now_s()
        more = (now_s - self._filled_s) * RATE_BYTES_S
        self._room_bytes = min(float(BURST_BYTES), self._room_bytes + more)
        self._filled_s = now_s
