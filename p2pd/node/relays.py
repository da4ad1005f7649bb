"""What a node passes on of others: together, and not to those that turn out to have it. Seconds.

Neighbours mostly hear an object from its author, and would all send it to each other at the same time. So each waits
a moment of its own, a different one each time: what comes from a neighbour meanwhile need not be sent to it.
"""

from hashlib import sha256
from typing import Any

import trio

from p2pd.core.ids import ObjectId, PeerId
from p2pd.core.signed import Signed
from p2pd.node.neighbours import Neighbours, Relay

PAUSE_S = 0.1
"""At most."""
UNHURRIED = frozenset({"report"})
"""Kinds of which one's own wait as well."""
PASSING = frozenset({"vote", "proposal", "beacon", "release"})
"""Kinds that say nothing once their height is decided: who is behind needs the decision."""


class Relays:
    """Holds no more than what the pool admits within a pause."""

    def __init__(self, me: PeerId, neighbours: Neighbours) -> None:
        self._me = me
        self._neighbours = neighbours
        self._waiting: dict[ObjectId, Relay] = {}
        self._begun = trio.Event()

    def add(self, signed: Signed[Any], source: PeerId | None) -> None:
        """source is None where it was made here."""
        relay = Relay(signed, {source or self._me, signed.signer})
        if source is None and signed.kind not in UNHURRIED:
            self._neighbours.pass_on([relay])
            return
        self._waiting[signed.id] = relay
        self._begun.set()

    def came_again(self, signed: Signed[Any], source: PeerId) -> None:
        if (relay := self._waiting.get(signed.id)) is not None:
            relay.have.add(source)

    def decided(self, height: int) -> None:
        """What waits of that height and is over with it need not be passed on."""
        self._waiting = {
            object_id: relay
            for object_id, relay in self._waiting.items()
            if relay.signed.kind not in PASSING or relay.signed.scope.height > height
        }

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._begun.wait()
            first = next(iter(self._waiting), ObjectId(b""))
            await trio.sleep(PAUSE_S * _lot(self._me + first))
            waiting, self._waiting = self._waiting, {}
            self._begun = trio.Event()
            self._neighbours.pass_on(list(waiting.values()))


def _lot(seed: bytes) -> float:
    """From 0 to 1, evenly."""
    return int.from_bytes(sha256(seed).digest()[:4]) / 2**32
