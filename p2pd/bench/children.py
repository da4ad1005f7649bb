"""Processes that a bench starts, measures from outside, and ends. Seconds, bytes, MB of 10**6 bytes.

A child prints one JSON object a line, takes lines on its standard input, and ends when that ends.
"""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from p2pd.errors import WorkloadError
from p2pd.lifeline import tied

LEAVE_S = 5.0
READ_BYTES = 2**16


class Child:
    def __init__(self, module: str, *arguments: str) -> None:
        self.name = " ".join((module, *arguments[:1]))
        self._process = subprocess.Popen(
            tied(module, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lines: Iterator[bytes] = iter(())
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        """At once, without a word to its peers."""
        self._process.kill()
        self._process.wait()

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, limit_s: float) -> dict[str, Any]:
        """The next thing it prints.

        Raises:
            WorkloadError: it ended, or said nothing for limit_s.
        """
        for line in self._lines:
            return dict(json.loads(line))
        data = self._read(limit_s)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines = iter(lines)
        return self.hear(limit_s)

    def _read(self, limit_s: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(limit_s):
                raise WorkloadError(f"{self.name} said nothing for {limit_s:g} s")
        data = os.read(self._process.stdout.fileno(), READ_BYTES)
        if not data:
            raise WorkloadError(f"{self.name} ended before its result: see what it printed above")
        return data

    @property
    def memory_bytes(self) -> int:
        """Resident, now."""
        return self._status("VmRSS")

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status(self, key: str) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
        raise WorkloadError(f"{self.name} has ended")


def tell_parent(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Appends the seconds that passed."""
    found: list[float] = []
    started_s = perf_counter()
    yield found
    found.append(perf_counter() - started_s)
