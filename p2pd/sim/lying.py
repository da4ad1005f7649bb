"""The lane of a liar: what its role wants to say becomes what the liar says, to whom it says it."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from p2pd.core.decision import Decision, Record
from p2pd.core.encoding import encode
from p2pd.core.ids import ArtifactId, ObjectId, PeerId
from p2pd.core.signed import Signed
from p2pd.core.talk import GetGovernance, Holdings, Objects, Records, dump_talk
from p2pd.node.governance import GovernanceLog
from p2pd.node.lane import Lane
from p2pd.node.neighbours import JUDGES, VALIDATOR
from p2pd.sim.liars import Lie
from p2pd.sim.tongues import Scene, Told, Tongue, nothing
from p2pd.sim.watched import WatchedLane
from p2pd.wire.envelope import dump

REMEMBERED = 2000
"""Objects of the past that a liar has at hand."""


class MuteLog(GovernanceLog):
    """Tells nobody."""

    def _tell(self, send: Callable[[bytes], object]) -> None: ...

    def serve(self, request: GetGovernance) -> bytes:
        return encode(Records(()))


class LyingLane(WatchedLane):
    lie: Lie
    tongue: Tongue
    past: deque[Signed[Any]]
    """What it heard in all its lives."""
    said: set[ObjectId]
    """In all its lives: its machine believes to have said more."""

    async def publish(self, signed: Signed[Any]) -> None:
        self._say(self.tongue.tell(signed, self._scene()))

    def _say(self, told: Iterable[Told]) -> None:
        for each in told:
            self.said.add(each.signed.id)
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
            frozenset(link.peer for link in links if not JUDGES.isdisjoint(link.hello.roles)),
            tuple(one for one in self.pool.held.values() if one.author != self.key),
            self.past,
        )

    async def adopt(self, record: Record, *, derived: bool = False) -> None:
        """Gives away no decision that rests on what it keeps to itself."""
        certificate = record.certificate
        if certificate is None or not any(
            vote.author == self.key and vote.id not in self.said
            for vote in (*certificate.precommits, *certificate.prevotes)
        ):
            await WatchedLane.adopt(self, record, derived=derived)

    def receive(self, signed: Signed[Any], source: PeerId) -> None:
        if signed.author == self.key:
            return  # a liar knows what it said, and its machine must not find out
        Lane.receive(self, signed, source)
        self.past.append(signed)
        if self.tongue.hear is not nothing:
            self._say(self.tongue.hear(signed, self._scene()))

    def _move_on(self, decision: Decision) -> None:
        super()._move_on(decision)
        self._say(self.tongue.enter(self._scene()))

    def may_have(self, peer: PeerId, artifact: ArtifactId) -> bool:
        if self.lie not in (Lie.CONFIDE, Lie.HOARD) or artifact not in self.artifacts.private:
            return Lane.may_have(self, peer, artifact)
        confidant = next(iter(sorted(self._scene().others)), None)
        return self.lie is Lie.CONFIDE and peer == confidant

    def lacking(self, holdings: Holdings) -> Sequence[Signed[Any]]:
        """What others said, never what its machine believes to have said itself."""
        return [one for one in Lane.lacking(self, holdings) if one.author != self.key]
