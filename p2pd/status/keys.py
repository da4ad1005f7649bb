"""What is typed at a terminal, as keys; arrows and the like, which come as several bytes, are none. Seconds.

Source: ECMA-48, sections 5.4 and 8.3.16 (control sequences), and xterm's ctlseqs (SS3).
"""

import re
from collections import deque
from collections.abc import Callable

ESCAPE = "escape"
REST_S = 0.05
"""A terminal sends the bytes of one key together; so long the rest may take where a line is slow."""

SEQUENCE = re.compile(rb"\x1b(?:\[\[.|\[[0-?]*[ -/]*[@-Z\\-~]|O.|[^\[O\x1b])", re.DOTALL)
"""What one key sends that is no character; `[[` is that of the Linux console."""

Read = Callable[[float], bytes]
"""What has been typed, waited for so long; empty for nothing."""


def keys_in(typed: bytes) -> list[str]:
    """The keys among these bytes, in order: printable ASCII characters, and Esc."""
    keys, place = [], 0
    while place < len(typed):
        if found := SEQUENCE.match(typed, place):
            place = found.end()
            continue
        rest = typed[place:]
        if rest.startswith((b"\x1b[", b"\x1bO")):  # the end of a sequence that never came
            break
        if rest[0] == 0x1B:
            keys.append(ESCAPE)
        elif 0x20 <= rest[0] < 0x7F:
            keys.append(chr(rest[0]))
        place += 1
    return keys


class KeyReader:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._waiting: deque[str] = deque()

    def key(self, wait_s: float) -> str:
        """The next key; empty where there is none in that time."""
        if not self._waiting:
            self._waiting.extend(keys_in(self._typed(wait_s)))
        return self._waiting.popleft() if self._waiting else ""

    def _typed(self, wait_s: float) -> bytes:
        typed = self._read(wait_s)
        while _is_begun(typed):
            more = self._read(REST_S)
            if not more:
                break
            typed += more
        return typed


def _is_begun(typed: bytes) -> bool:
    """Whether these bytes end within what may be a sequence."""
    begun = typed.rfind(b"\x1b")
    return begun >= 0 and SEQUENCE.match(typed, begun) is None
