"""Validators that lie, each in one way."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.proposals import Proposal
from p2pd.sim import misproposing
from p2pd.sim.liars import Lie, Sign
from p2pd.sim.misproposing import Misproposer
from p2pd.sim.tongues import Scene, Told, Tongue, as_it_is
from p2pd.sim.two_faces import TwoFaces

REPLAYED = 40
"""Objects of the past that are said again at each height."""
BABBLE = 40
"""Votes that a babbler adds to each height."""
BALLOT = frozenset({"vote", "proposal"})

REWORDINGS = {
    Lie.REPEAT: misproposing.with_old_updates,
    Lie.STRAY: misproposing.with_strays,
    Lie.HASTE: misproposing.unchanged,
    Lie.FORGE: misproposing.with_forgeries,
    Lie.CENSOR: misproposing.without_a_trainer,
    Lie.SUPPRESS: misproposing.without_the_authority,
    Lie.CLAIM: misproposing.claiming_the_target,
    Lie.DENY: misproposing.denying_the_target,
    Lie.UNFETCHABLE: misproposing.with_the_unfetchable,
}


def claiming(sign: Sign, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    """Claims of quorums that nobody saw."""
    content = signed.content
    if isinstance(content, Proposal):
        if content.round == 0:
            return []
        boast = Vote(Step.PREVOTE, content.round - 1, DecisionId(signed.id), NO_ROUND, ())
        quorum = (sign("vote", signed.scope, boast),)
        false = replace(content, pol=content.round - 1, quorum=quorum)
        return [Told(sign("proposal", signed.scope, false), scene.others)]
    if not isinstance(content, Vote) or content.value is None or content.round == 0:
        return [Told(signed)]
    if content.step is not Step.PREVOTE:
        return [Told(signed)]
    false_vote = replace(content, just=content.round - 1)
    return [Told(sign("vote", signed.scope, false_vote), scene.others)]


def voting_twice(sign: Sign, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    """For and against everything, before everybody."""
    vote = signed.content
    if not isinstance(vote, Vote) or vote.value is None:
        return [Told(signed)]
    nil = Vote(vote.step, vote.round, None, NO_ROUND, ())
    return [Told(signed, scene.others), Told(sign("vote", scene.scope, nil), scene.others)]


def silent(signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    return [] if signed.kind in BALLOT else [Told(signed)]


def withholding(dice: Random, signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    """Proposals reach some of the others, or nobody."""
    if not isinstance(signed.content, Proposal):
        return [Told(signed)]
    others = sorted(scene.others)
    return [Told(signed, frozenset(dice.sample(others, dice.randrange(len(others) + 1))))]


def repeating_the_past(scene: Scene) -> Iterable[Told]:
    """What others said at this height of an earlier term, and anything older."""
    height = scene.scope.height
    past = [one for one in scene.past if one.kind in ("vote", "proposal", "update")]
    here = [one for one in past if one.scope.height == height]
    older = [one for one in past if one.scope.height < height]
    return [Told(one, scene.others) for one in (*here, *older[:REPLAYED])]


def forging_votes(scene: Scene) -> Iterable[Told]:
    """Votes of all others, for nothing, which they never signed."""
    nil = Vote(Step.PRECOMMIT, 0, None, NO_ROUND, ())
    return [
        Told(Signed("vote", scene.scope, member.key, nil, bytes(64)), scene.others)
        for member in scene.members.rows
        if member.key != scene.me
    ]


def babbling(sign: Sign, dice: Random, scene: Scene) -> Iterable[Told]:
    """Votes for what does not exist, in rounds far ahead, now and for the next height."""
    for n in range(BABBLE):
        step = dice.choice((Step.PREVOTE, Step.PRECOMMIT))
        just = dice.choice((NO_ROUND, n)) if step is Step.PREVOTE else NO_ROUND
        vote = Vote(step, n + 1, DecisionId(dice.randbytes(32)), just, ())
        scope = replace(scene.scope, height=scene.scope.height + n % 2)
        yield Told(sign("vote", scope, vote), scene.others)


def tongue_of(lie: Lie, sign: Sign, dice: Random) -> Tongue | None:
    """None for what is no validator's lie."""
    if lie in REWORDINGS:
        made = Misproposer(sign, REWORDINGS[lie], at_once=lie is Lie.HASTE)
        return Tongue(made.tell, enter=forging_votes if lie is Lie.FORGE else made.enter)
    if lie in (Lie.SPLIT, Lie.DESERT):
        faces = TwoFaces(sign, lie is Lie.DESERT)
        return Tongue(faces.tell, faces.hear)
    plain = {
        Lie.FALSE_JUST: Tongue(partial(claiming, sign)),
        Lie.TWO_VOTES: Tongue(partial(voting_twice, sign)),
        Lie.SILENT: Tongue(silent),
        Lie.WITHHOLD: Tongue(partial(withholding, dice)),
        Lie.BABBLE: Tongue(enter=partial(babbling, sign, dice)),
        Lie.REVENANT: Tongue(enter=repeating_the_past),
        # What it does wrong is not said by its tongue.
        Lie.TURNCOAT: Tongue(as_it_is),
        Lie.HOARD: Tongue(as_it_is),
    }
    return plain.get(lie)
