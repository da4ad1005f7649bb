"""A validator that proposes what it should not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from p2pd.core.decision import PlanState
from p2pd.core.encoding import decode, encode
from p2pd.core.messages import Candidate, ChoiceKind, Choices
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.core.work import FULL, Verdict
from p2pd.sim.liars import Sign
from p2pd.sim.tongues import Scene, Told

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


def with_strays(choices: Choices, scene: Scene) -> Choices:
    """Besides, what trainers did for another revision."""
    elsewhere = {
        one.signer: one
        for one in scene.past
        if one.kind == "update" and one.scope.revision != scene.scope.revision
    }
    strays = [Candidate(one, Verdict.ACCEPTED, FULL) for one in elsewhere.values()]
    cohort = sorted((*choices.cohort, *strays), key=lambda one: one.update.id)
    return replace(choices, cohort=tuple(cohort))


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


def claiming_the_target(choices: Choices, scene: Scene) -> Choices:
    """Whatever the head is worth."""
    state = scene.previous.state
    if state.plan.state is not PlanState.RUNNING or state.governed.ends.target is None:
        return choices
    return Choices(ChoiceKind.REACHED, (), (), (), choices.evidence, (), choices.governance)


def denying_the_target(choices: Choices, scene: Scene) -> Choices:
    """However good the head is, a window more."""
    if choices.kind is not ChoiceKind.REACHED:
        return choices
    return replace(choices, kind=ChoiceKind.WINDOW)


def without_the_authority(choices: Choices, scene: Scene) -> Choices:
    """As if nothing had been heard of it."""
    return replace(choices, governance=())


def without_a_trainer(choices: Choices, scene: Scene) -> Choices:
    """As if the first trainer on the roster had delivered nothing, and were not there."""
    roster = scene.previous.state.plan.roster
    victim = roster[0].peer if roster else None
    return replace(
        choices,
        cohort=tuple(one for one in choices.cohort if one.update.signer != victim),
        presence=tuple(one for one in choices.presence if one.signer != victim),
    )


def with_the_unfetchable(choices: Choices, scene: Scene) -> Choices:
    """Every update announced is called good, though nobody may have its bytes."""
    listed = {one.update.signer for one in choices.cohort}
    announced = {one.signer: one for one in scene.held if one.kind == "update"}
    more = [
        Candidate(one, Verdict.ACCEPTED, FULL)
        for one in announced.values()
        if one.signer not in listed
    ]
    cohort = sorted((*choices.cohort, *more), key=lambda one: one.update.id)
    return replace(choices, cohort=tuple(cohort))
