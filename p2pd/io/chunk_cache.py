"""The chunks that were read last: several peers ask for one at about the same time.

What a content's hash names never changes, so that nothing here is ever wrong.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

import trio

from p2pd.core.ids import ArtifactId

HELD_CHUNKS = 8
"""Of 1 MiB at most."""

Place = tuple[ArtifactId, int]


class ChunkCache:
    def __init__(self) -> None:
        self._held: OrderedDict[Place, bytes] = OrderedDict()
        self._turns: dict[Place, trio.Lock] = {}

    async def get(self, place: Place, read: Callable[[], Awaitable[bytes | None]]) -> bytes | None:
        """What is held, or what read gives; of those who ask meanwhile only the first one reads."""
        turn = self._turns.setdefault(place, trio.Lock())
        try:
            async with turn:
                data = self._held.pop(place, None)
                if data is None:
                    data = await read()
                if data is not None:
                    self._held[place] = data
                    if len(self._held) > HELD_CHUNKS:
                        self._held.popitem(last=False)
                return data
        finally:
            if not turn.locked():
                self._turns.pop(place, None)
