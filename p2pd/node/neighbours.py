"""Whom a lane tells what: all its neighbours, those that need it, or a few of them at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.talk import Decided, Objects, dump_talk
from p2pd.ports import Link, Transport
from p2pd.wire.envelope import dump

FOR_ALL = frozenset({"report"})
"""Waited for by nobody, too: they go with other things."""
VALIDATOR = "validator"
JUDGES = frozenset({VALIDATOR, "reducer", "bootstrap"})
"""Roles that need what is said about an open window; seeds pass it on."""
BROUGHT_BYTES = 2**17
"""A record up to this size is handed over unasked."""
OBJECTS_BYTES = 2**18
"""Of envelopes in one control message."""
FEW = 4
"""Neighbours that are shown an inventory at a time: what is lost comes from any of them."""


def is_for(kind: str, link: Link) -> bool:
    return kind in FOR_ALL or judges_windows(link)


def judges_windows(link: Link) -> bool:
    return not JUDGES.isdisjoint(link.hello.roles)


def pack(objects: Sequence[Signed[Any]]) -> Sequence[bytes]:
    """As few messages as they fit in."""
    messages: list[bytes] = []
    batch: list[bytes] = []
    for signed in objects:
        batch.append(dump(signed))
        if sum(map(len, batch)) > OBJECTS_BYTES:
            messages.append(dump_talk(Objects(tuple(batch))))
            batch = []
    if batch:
        messages.append(dump_talk(Objects(tuple(batch))))
    return messages


@dataclass(slots=True, eq=False)
class Relay:
    """An object on its way to others."""

    signed: Signed[Any]
    have: set[PeerId]
    """Who need not be told: its author, and those from whom it came."""


class Neighbours:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._told = 0
        """Over and over, in turn."""
        self._tips: dict[PeerId, tuple[int, DecisionId]] = {}
        """The last decision that each said it adopted."""

    def tell_all(self, message: bytes) -> None:
        for link in self._transport.links():
            self._transport.send(link.peer, message)

    def heard_tip(self, peer: PeerId, height: int, decision: DecisionId) -> None:
        self._tips[peer] = height, decision

    def are_beyond(self, height: int) -> bool:
        """Whether one of them said that it adopted a later decision."""
        links = (link.peer for link in self._transport.links())
        return any(self._tips[peer][0] > height for peer in links if peer in self._tips)

    def tell_decided(
        self, decided: Decided, tip: bytes, has_seat: Callable[[PeerId], bool]
    ) -> None:
        """Validators hand followers the record, which would ask for it; all others say how far they are.

        Those that have said the same, or are further, need not be told.
        """
        brings = has_seat(self._transport.peer) and len(decided.record) <= BROUGHT_BYTES
        message = dump_talk(decided) if brings else tip
        links = self._transport.links()
        self._tips = {link.peer: self._tips[link.peer] for link in links if link.peer in self._tips}
        here = decided.height, decided.decision
        for link in links:
            theirs = self._tips.get(link.peer, (-1, b""))
            if theirs != here and theirs[0] <= decided.height:
                self._transport.send(link.peer, tip if has_seat(link.peer) else message)

    def tell_few(self, message: bytes) -> None:
        for link in self._next_few(FEW):
            self._transport.send(link.peer, message)

    def tell_validators(self, message: bytes) -> None:
        for link in self._transport.links():
            if VALIDATOR in link.hello.roles:
                self._transport.send(link.peer, message)

    def pass_on(self, relays: Sequence[Relay]) -> None:
        """To those that need them and may not have them."""
        # Who does not get a report from its author, or on such a way, reconciles.
        spread = {relay.signed.id for relay in relays if self._is_for_one(relay.signed)}
        one = {link.peer for link in self._next_few(1)} if spread else set()
        packed: dict[tuple[int, ...], Sequence[bytes]] = {(): ()}
        """By place in relays: most neighbours need the same."""
        rows = [
            (place, relay.have, relay.signed.kind in FOR_ALL, relay.signed.id in spread)
            for place, relay in enumerate(relays)
        ]
        for link in self._transport.links():
            peer, judges, chosen = link.peer, judges_windows(link), link.peer in one
            wanted = tuple(
                [
                    place
                    for place, have, for_all, spreads in rows
                    if (judges or for_all) and (chosen or not spreads) and peer not in have
                ]
            )
            if wanted not in packed:
                packed[wanted] = pack([relays[place].signed for place in wanted])
            patient = all(relays[place].signed.kind in FOR_ALL for place in wanted)
            for message in packed[wanted]:
                self._transport.send(link.peer, message, patient=patient)

    def _is_for_one(self, signed: Signed[Any]) -> bool:
        return signed.kind in FOR_ALL and signed.signer != self._transport.peer

    def send(self, link: Link, objects: Sequence[Signed[Any]]) -> int:
        """Returns how many objects."""
        for message in pack(objects):
            self._transport.send(link.peer, message)
        return len(objects)

    def _next_few(self, most: int) -> Sequence[Link]:
        """Other ones each time: all of them in turn."""
        links = self._transport.links()
        if len(links) <= most:
            return links
        first = self._told % len(links)
        self._told += most
        return (*links, *links)[first : first + most]
