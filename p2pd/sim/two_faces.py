"""A validator that leads some to a lock, and others elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from p2pd.core.encoding import decode, encode
from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.proposals import Proposal
from p2pd.sim.liars import Sign
from p2pd.sim.tongues import Scene, Told


@dataclass(slots=True)
class TwoFaces:
    """Waits until its prevote decides about a quorum, and gives it to one side only; then tries for a second decision.

    Where that never comes about it is honest to the letter, and nobody can name it.
    """

    sign: Sign
    deserts: bool
    """Having led others to a lock it says no more at that height."""
    waits: dict[int, Signed[Vote]] = field(default_factory=dict)
    """Its honest prevotes of the open height, by round, not sent yet."""
    height: int = 0
    struck: int | None = None
    """The round in which it lied at the open height."""
    first: DecisionId | None = None
    """What it led some to lock."""
    believers: tuple[PeerId, ...] = ()
    done: bool = False

    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        content = signed.content
        if not isinstance(content, Vote | Proposal):
            return [Told(signed)]
        self._turn_to(signed.scope.height)
        if self.struck is not None:
            return []
        if isinstance(content, Vote) and content.step is Step.PREVOTE and content.value is not None:
            self.waits[content.round] = signed
            return self._strike(scene)
        return [Told(signed)]

    def hear(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        self._turn_to(scene.scope.height)
        if self.struck is None:
            return self._strike(scene)
        if self.deserts or self.done or not isinstance(signed.content, Vote):
            return []
        return self._second(scene, self.struck + 1)

    def _turn_to(self, height: int) -> None:
        if height > self.height:
            self.height, self.struck, self.first, self.done = height, None, None, False
            self.waits.clear()

    def _strike(self, scene: Scene) -> Iterable[Told]:
        told: list[Told] = []
        for round_, vote in sorted(self.waits.items()):
            heard = scene.votes(Step.PREVOTE, round_)
            if len(heard) < len(scene.members.rows) - 1:
                continue
            del self.waits[round_]
            value = vote.content.value
            believers = [peer for peer, one in heard.items() if one.value == value]
            mine = scene.members.weights.get(scene.me, 0)
            needed = scene.members.quorum - scene.weight(believers)
            if not 0 < needed <= mine or not (self.deserts or scene.proposes(round_ + 1)):
                told.append(Told(vote))
                continue
            self.struck, self.first, self.believers = round_, value, tuple(sorted(believers))
            nil = Vote(Step.PREVOTE, round_, None, NO_ROUND, ())
            told.append(Told(vote, frozenset(believers)))
            told.append(Told(self._vote(scene, nil), scene.others.difference(believers)))
            if not self.deserts:
                told += self._something_else(scene, round_)
        return told

    def _something_else(self, scene: Scene, round_: int) -> list[Told]:
        """The proposal of the next round, fresh, with somebody left out."""
        proposals = [one.content for one in scene.held if isinstance(one.content, Proposal)]
        told = []
        for proposal in proposals:
            if proposal.round == round_:
                choices = decode(Choices, proposal.choices)
                fewer = encode(replace(choices, presence=choices.presence[1:]))
                content = Proposal(round_ + 1, NO_ROUND, fewer, ())
                told.append(Told(self.sign("proposal", scene.scope, content), scene.others))
        return told

    def _vote(self, scene: Scene, vote: Vote) -> Signed[Vote]:
        return self.sign("vote", scene.scope, vote)

    def _second(self, scene: Scene, round_: int) -> Iterable[Told]:
        """Votes for the second decision, and lets the first one come about where it was believed."""
        votes = [one for one in scene.votes(Step.PREVOTE, round_).values() if one.value is not None]
        values = {vote.value for vote in votes if vote.value != self.first}
        for value in values:
            mine = scene.members.weights.get(scene.me, 0)
            voters = [p for p, v in scene.votes(Step.PREVOTE, round_).items() if v.value == value]
            if scene.weight(voters) + mine < scene.members.quorum or self.struck is None:
                continue
            self.done = True
            one, rest = frozenset(self.believers[:1]), scene.others.difference(self.believers[:1])
            secret = Vote(Step.PRECOMMIT, self.struck, self.first, NO_ROUND, ())
            return [
                Told(self._vote(scene, secret), one),
                Told(self._vote(scene, Vote(Step.PREVOTE, round_, value, NO_ROUND, ())), rest),
                Told(self._vote(scene, Vote(Step.PRECOMMIT, round_, value, NO_ROUND, ())), rest),
            ]
        return []
