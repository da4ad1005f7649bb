"""The lane of a liar: what its role wants to say becomes what the liar says, to whom it says it."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from p2pd.core.decision import Decision, Record
from p2pd.core.ids import ObjectId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.talk import Holdings, Objects, dump_talk
from p2pd.node.lane import Lane
from p2pd.node.neighbours import VALIDATOR
from p2pd.ports import Link
from p2pd.sim.liars import Lie, retold
from p2pd.sim.lying_validators import Scene, Told, Tongue
from p2pd.sim.watched import WatchedLane
from p2pd.wire.envelope import dump

REMEMBERED = 2000
"""Objects of the past that a liar has at hand."""


class LyingLane(WatchedLane):
    lie: Lie
    tongue: Tongue | None = None
    """Of a validator."""
    past: deque[Signed[Any]]
    """What it heard in all its lives."""
    unsaid: set[ObjectId]
    """What its machine believes to have said."""

    async def publish(self, signed: Signed[Any]) -> None:
        if self.tongue is None:
            for one in retold(self.lie, signed, self.sign):
                await Lane.publish(self, one)
        else:
            self.unsaid.add(signed.id)
            self._say(self.tongue.tell(signed, self._scene()))

    def _say(self, told: Iterable[Told]) -> None:
        for each in told:
            self.unsaid.discard(each.signed.id)
            if each.to is None:
                self._take(each.signed, None)
                continue
            message = dump_talk(Objects((dump(each.signed),)))
            for peer in sorted(each.to):
                self._hub.transport.send(peer, message)

    def _scene(self) -> Scene:
        links = self._hub.transport.links()
        return Scene(
            self.key,
            self.decision,
            self.setting.scope(self.pool.height),
            self.setting.members(self.decision.state.suspended),
            frozenset(link.peer for link in links if VALIDATOR in link.hello.roles),
            tuple(one for one in self.pool.held.values() if one.author != self.key),
            self.past,
        )

    async def adopt(self, record: Record) -> None:
        """Gives away no decision that rests on what it keeps to itself."""
        certificate = record.certificate
        if certificate is None or not any(
            vote.id in self.unsaid for vote in (*certificate.precommits, *certificate.prevotes)
        ):
            await WatchedLane.adopt(self, record)

    def receive(self, signed: Signed[Any], source: PeerId) -> None:
        if signed.author == self.key:
            return  # a liar knows what it said, and its machine must not find out
        Lane.receive(self, signed, source)
        self.past.append(signed)
        if self.tongue is not None:
            self._say(self.tongue.hear(signed, self._scene()))

    def _move_on(self, decision: Decision) -> None:
        super()._move_on(decision)
        if self.tongue is not None:
            self._say(self.tongue.enter(self._scene()))

    def on_holdings(self, link: Link, holdings: Holdings) -> int:
        """Passes on what others said, never what its machine believes to have said itself."""
        if holdings.height != self.pool.height or VALIDATOR not in link.hello.roles:
            return 0
        lacking = self.role.lacking(holdings.votes)
        return self._send(link, [one for one in lacking if one.author != self.key])
