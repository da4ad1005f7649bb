"""Which chunks of an artifact are still to be asked for, and who holds them: the rarest go first.

So that what only one provider holds is soon held by two. Source: BEP 3, piece selection.
"""

from collections.abc import Iterable
from random import Random

from p2pd.core.artifact import holds
from p2pd.core.ids import PeerId


class Pieces:
    def __init__(self, missing: Iterable[int], dice: Random) -> None:
        self._todo = list(missing)
        # Equally rare ones in random order, so that several who fetch at a time can serve each other.
        dice.shuffle(self._todo)
        self._held: dict[PeerId, bytes] = {}
        self._stale = False
        """What is held has changed since todo was put in order: rarest last."""

    def __len__(self) -> int:
        return len(self._todo)

    def learn(self, peer: PeerId, held: bytes) -> None:
        """held: one bit a chunk."""
        if self._held.get(peer) != held:
            self._held[peer] = held
            self._stale = True

    def known(self, peer: PeerId) -> bool:
        return peer in self._held

    def holds(self, peer: PeerId, index: int) -> bool:
        """As far as is known; one of whom nothing is known may hold anything."""
        held = self._held.get(peer)
        return held is None or holds(held, index)

    def gives(self, peer: PeerId) -> bool:
        """True if it may hold something that is to do."""
        return any(self.holds(peer, index) for index in reversed(self._todo))

    def take(self, peer: PeerId) -> int | None:
        """The rarest chunk that this peer may hold."""
        if self._stale:
            self._todo.sort(key=lambda n: sum(holds(held, n) for held in self._held.values()))
            self._todo.reverse()
            self._stale = False
        for place in range(len(self._todo) - 1, -1, -1):
            if self.holds(peer, self._todo[place]):
                return self._todo.pop(place)
        return None

    def put_back(self, index: int) -> None:
        """To be asked for again, before all others."""
        self._todo.append(index)
