"""Everything that makes something of bytes from outside: a peer's, a process's, a file's.

A target reads any bytes and returns, or raises the error that its kind of bytes may raise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from p2pd.errors import P2pError

Scratch = Path
"""A directory of the caller's, for what reads files."""
Read = Callable[[bytes, Scratch], object]


@dataclass(frozen=True)
class Target:
    name: str
    read: Read
    refuses: tuple[type[P2pError], ...]
    seeds: Callable[[], Sequence[bytes]]
    """What it accepts, for a fuzzer to begin with."""
    covers: tuple[str, ...]
    """Functions that make something of the bytes, as module.function."""

    def run(self, data: bytes, scratch: Scratch) -> None:
        try:
            self.read(data, scratch)
        except self.refuses:
            return


class Registry(Mapping[str, Target]):
    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}

    def add(
        self,
        name: str,
        refuses: type[P2pError] | tuple[type[P2pError], ...],
        seeds: Callable[[], Sequence[bytes]],
        *covers: str,
    ) -> Callable[[Read], Read]:
        kinds = refuses if isinstance(refuses, tuple) else (refuses,)

        def register(read: Read) -> Read:
            assert name not in self._targets
            self._targets[name] = Target(name, read, kinds, seeds, covers)
            return read

        return register

    def __getitem__(self, name: str) -> Target:
        return self._targets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)
