"""A proposal's choices, made from what one validator holds."""

from collections.abc import Mapping, Sequence

from p2pd.core.checking import blocked_by, objected
from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import inputs_hash, merge_job
from p2pd.core.ids import PeerId
from p2pd.core.messages import ChoiceKind, Choices, Reduction
from p2pd.core.signed import Signed
from p2pd.core.validator.desk import Desk
from p2pd.core.votes import ReasonKind, Vote

GROUNDS = frozenset({ReasonKind.VERDICT, ReasonKind.UNFETCHABLE, ReasonKind.CANARY})
"""Reasons that justify what a later proposal drops."""


def build(
    desk: Desk,
    objections: Sequence[Signed[Vote]],
    reductions: Mapping[tuple[int, PeerId], Signed[Reduction]],
    now_s: float,
) -> Choices:
    """Choices that pass the objective checks; objections are prevotes of this height for nil."""
    setting, window, previous = desk.setting, desk.window, desk.previous
    members = setting.members(previous.state.suspended)
    by_id = {vote.id: vote for vote in objections if _has_grounds(vote)}
    grounds = tuple(by_id[key] for key in sorted(by_id))
    if window.target_s is not None:
        evidence, records = window.evidence_held(), window.governance()
        return Choices(ChoiceKind.REACHED, (), (), (), evidence, (), records)
    kind, cohort = ChoiceKind.IDLE, window.candidates(frozenset())
    if window.state is PlanState.RUNNING:
        kind = ChoiceKind.WINDOW
        # Counted on a cohort that is not larger than the one proposed: what may be dropped grows with it.
        cohort = window.candidates(objected(grounds, members, len(cohort)))
    job = merge_job(setting, previous, cohort)
    merged = desk.merged.get(inputs_hash(job)) if job else None
    if merged is not None and blocked_by(grounds, merged.head, members):
        kind = ChoiceKind.BLOCKED
    return Choices(
        kind,
        cohort,
        window.presence(now_s),
        _judgeable(previous, reductions),
        window.evidence_held(),
        grounds,
        window.governance(),
    )


def _judgeable(
    previous: Decision, reductions: Mapping[tuple[int, PeerId], Signed[Reduction]]
) -> tuple[Signed[Reduction], ...]:
    """Of the window before, by the reducers that were drawn for it."""
    merge = previous.state.merge
    if merge is None:
        return ()
    held = [reductions.get((previous.height, peer)) for peer in sorted(merge.reducers)]
    return tuple(one for one in held if one is not None and one.content.plan == merge.plan)


def _has_grounds(vote: Signed[Vote]) -> bool:
    return any(reason.kind in GROUNDS for reason in vote.content.reasons)
