"""Control messages of which a part has come: how much all links together may hold. Bytes.

Honest ones are whole within a moment; so whoever has let its own wait longest makes room.
"""

from typing import Generic, TypeVar

T = TypeVar("T")

UNFINISHED_MOST = 16 * 2**20


class Unfinished(Generic[T]):
    def __init__(self, most_bytes: int = UNFINISHED_MOST) -> None:
        self._most_bytes = most_bytes
        self._held: dict[T, int] = {}
        """By when the message began, the oldest first."""
        self.total_bytes = 0

    def note(self, owner: T, waiting_bytes: int, *, begun: bool) -> T | None:
        """What of owner waits now; begun: of a new message. Who is to be parted from, if that is too much."""
        if begun or not waiting_bytes:
            self.forget(owner)
        if waiting_bytes:
            self.total_bytes += waiting_bytes - self._held.get(owner, 0)
            self._held[owner] = waiting_bytes
        return next(iter(self._held)) if self.total_bytes > self._most_bytes else None

    def forget(self, owner: T) -> None:
        self.total_bytes -= self._held.pop(owner, 0)
