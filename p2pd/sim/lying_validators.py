"""Validators that lie: over the real machine, with their own key, they say what they like to whom they like."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from p2pd.core.decision import Decision, PlanState
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import DecisionId, PeerId, PublicKey
from p2pd.core.messages import Candidate, ChoiceKind, Choices
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.members import Members
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import FULL, Verdict
from p2pd.sim.liars import Lie, Sign


@dataclass(frozen=True, slots=True)
class Told:
    signed: Signed[Any]
    to: frozenset[PeerId] | None = None
    """None: everybody, as an honest node would."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a liar sees when it may speak."""

    me: PublicKey
    previous: Decision
    scope: Scope
    """Of the open height."""
    members: Members
    others: frozenset[PeerId]
    """Other validators that are linked."""
    held: tuple[Signed[Any], ...]
    """What was heard of the open height."""
    past: Collection[Signed[Any]]
    """What was heard before, and is remembered."""

    def votes(self, step: Step, round_: int) -> dict[PeerId, Vote]:
        """Of the others, the first of each."""
        found: dict[PeerId, Vote] = {}
        for one in self.held:
            vote = one.content
            if isinstance(vote, Vote) and (vote.step, vote.round) == (step, round_):
                found.setdefault(one.signer, vote)
        return found

    def weight(self, peers: Iterable[PeerId]) -> int:
        chosen = frozenset(peers)
        return sum(member.weight for member in self.members.rows if member.peer in chosen)

    def proposes(self, round_: int) -> bool:
        return self.members.proposer(self.scope.height, round_).key == self.me


class Tongue(Protocol):
    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        """What becomes of what the liar's machine wants to say."""
        ...

    def hear(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        """What the liar says upon what it hears."""
        ...

    def enter(self, scene: Scene) -> Iterable[Told]:
        """What the liar says at the beginning of a height."""
        ...


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

    def enter(self, scene: Scene) -> Iterable[Told]:
        return []

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


@dataclass(slots=True)
class FalseJust:
    """Claims of quorums that nobody saw."""

    sign: Sign

    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        content = signed.content
        if isinstance(content, Proposal):
            if content.round == 0:
                return []
            boast = Vote(Step.PREVOTE, content.round - 1, DecisionId(signed.id), NO_ROUND, ())
            quorum = (self.sign("vote", signed.scope, boast),)
            false = replace(content, pol=content.round - 1, quorum=quorum)
            return [Told(self.sign("proposal", signed.scope, false), scene.others)]
        if not isinstance(content, Vote) or content.value is None or content.round == 0:
            return [Told(signed)]
        if content.step is not Step.PREVOTE:
            return [Told(signed)]
        false_vote = replace(content, just=content.round - 1)
        return [Told(self.sign("vote", signed.scope, false_vote), scene.others)]

    def hear(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        return []

    def enter(self, scene: Scene) -> Iterable[Told]:
        return []


Reword = Callable[[Choices, Scene], Choices]


@dataclass(slots=True)
class Misproposer:
    """Proposes other choices than it should. To its own false proposals it says nothing, as it need not."""

    sign: Sign
    reword: Reword
    at_once: bool = False
    """Does not wait for the window to end."""

    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        content = signed.content
        if isinstance(content, Vote) and scene.proposes(content.round):
            return []
        if not isinstance(content, Proposal) or content.pol != NO_ROUND:
            return [Told(signed)]
        if self.at_once and content.round == 0:
            return []
        return self._propose(content.round, decode(Choices, content.choices), scene)

    def hear(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        return []

    def enter(self, scene: Scene) -> Iterable[Told]:
        running = scene.previous.state.plan.state is PlanState.RUNNING
        if self.at_once and running and scene.proposes(0):
            return self._propose(0, Choices(ChoiceKind.WINDOW, (), (), (), (), ()), scene)
        return []

    def _propose(self, round_: int, choices: Choices, scene: Scene) -> Iterable[Told]:
        content = Proposal(round_, NO_ROUND, encode(self.reword(choices, scene)), ())
        return [Told(self.sign("proposal", scene.scope, content), scene.others)]


def unchanged(choices: Choices, scene: Scene) -> Choices:
    return choices


def with_old_updates(choices: Choices, scene: Scene) -> Choices:
    """In place of each trainer's update one of an earlier window, where it still has a lease."""
    height = scene.scope.height
    old = {
        one.signer: one for one in scene.past if one.kind == "update" and one.scope.height < height
    }
    cohort = [
        Candidate(old[one.update.signer], Verdict.ACCEPTED, FULL)
        if one.update.signer in old
        else one
        for one in choices.cohort
    ]
    return replace(choices, cohort=tuple(sorted(cohort, key=lambda one: one.update.id)))


def with_forgeries(choices: Choices, scene: Scene) -> Choices:
    """An update that its trainer did not sign so, and evidence against another validator."""
    cohort = list(choices.cohort)
    if cohort:
        update = cohort[0].update
        other = replace(update, content=replace(update.content, steps=update.content.steps + 1))
        cohort[0] = replace(cohort[0], update=other)
    victim = next(member for member in scene.members.rows if member.key != scene.me)
    votes = [Vote(Step.PRECOMMIT, 0, value, NO_ROUND, ()) for value in (None, scene.previous.id)]
    pair = tuple(Signed("vote", scene.scope, victim.key, vote, bytes(64)) for vote in votes)
    return replace(
        choices,
        cohort=tuple(sorted(cohort, key=lambda one: one.update.id)),
        evidence=(Evidence(pair, ()),),
    )


@dataclass(slots=True)
class Revenant:
    """Honest of itself; it repeats what others said in another term."""

    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        return [Told(signed)]

    def hear(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        return []

    def enter(self, scene: Scene) -> Iterable[Told]:
        return [
            Told(one, scene.others)
            for one in scene.past
            if one.scope.height == scene.scope.height and one.kind in ("vote", "proposal", "update")
        ]


@dataclass(slots=True)
class TwoVotes:
    sign: Sign

    def tell(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        vote = signed.content
        if not isinstance(vote, Vote) or vote.value is None:
            return [Told(signed)]
        nil = Vote(vote.step, vote.round, None, NO_ROUND, ())
        return [Told(signed, scene.others), Told(self.sign("vote", scene.scope, nil), scene.others)]

    def hear(self, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
        return []

    def enter(self, scene: Scene) -> Iterable[Told]:
        return []


def tongue_of(lie: Lie, sign: Sign, dice: Random) -> Tongue | None:
    """None for what is no validator's lie."""
    match lie:
        case Lie.SPLIT | Lie.DESERT:
            return TwoFaces(sign, lie is Lie.DESERT)
        case Lie.FALSE_JUST:
            return FalseJust(sign)
        case Lie.REPEAT:
            return Misproposer(sign, with_old_updates)
        case Lie.HASTE:
            return Misproposer(sign, unchanged, at_once=True)
        case Lie.FORGE:
            return Misproposer(sign, with_forgeries)
        case Lie.REVENANT:
            return Revenant()
        case Lie.TWO_VOTES:
            return TwoVotes(sign)
        case _:
            return None
