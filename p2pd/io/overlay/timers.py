"""When each connection wants to be looked at. Seconds.

A connection that is over leaves no more behind than two numbers: callers who come and go fast would fill the memory
with connections whose time is not up yet.
"""

import heapq
import itertools
import math
from typing import Generic, TypeVar

T = TypeVar("T")

STALE_LEAST = 64


class Timers(Generic[T]):
    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._owners: dict[int, T] = {}
        self._armed: dict[T, tuple[float, int]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def next_s(self) -> float:
        while self._heap and self._heap[0][1] not in self._owners:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def arm(self, owner: T, at_s: float) -> None:
        """Instead of for another time: to wake for one that does not hold any more costs more than to forget it."""
        if owner in self._armed:
            if self._armed[owner][0] == at_s:
                return
            self.disarm(owner)
        entry = self._armed[owner] = at_s, next(self._numbers)
        self._owners[entry[1]] = owner
        heapq.heappush(self._heap, entry)

    def disarm(self, owner: T) -> None:
        entry = self._armed.pop(owner, None)
        if entry is None:
            return
        del self._owners[entry[1]]
        if len(self._heap) > 2 * len(self._owners) + STALE_LEAST:
            self._heap = sorted(self._armed.values())

    def due(self, now_s: float) -> list[T]:
        """Those whose time has come; they are not armed any more."""
        found = []
        while self._heap and self._heap[0][0] <= now_s:
            owner = self._owners.get(heapq.heappop(self._heap)[1])
            if owner is not None:
                found.append(owner)
        for owner in found:
            self.disarm(owner)
        return found
