"""What became of the leases that a decision decides, and how it moves the standing of those who had them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from p2pd.core.dealing import Waiting
from p2pd.core.decision import Decision, Plan, State
from p2pd.core.ids import PeerId
from p2pd.core.leases import find_lease
from p2pd.core.messages import Candidate, Choices
from p2pd.core.pace import Paces
from p2pd.core.standing import HARMFUL, Conduct, moved
from p2pd.core.work import Verdict

if TYPE_CHECKING:
    from p2pd.core.derive import Setting


@dataclass(frozen=True, slots=True)
class Work:
    """What became of the leases that a decision decides."""

    cohort: tuple[Candidate, ...]
    """Of the plan."""
    late_cohort: tuple[Candidate, ...]
    """Of the plan before."""
    counted: tuple[Candidate, ...]
    delivered: frozenset[PeerId]
    delivered_late: frozenset[PeerId]
    waiting: Waiting | None
    """Those of the plan of whom nothing was heard; only a promoted head lets them be late."""


def work_of(setting: "Setting", previous: Decision, choices: Choices, *, promoted: bool) -> Work:
    plan = previous.state.plan
    cohort: list[Candidate] = []
    late: list[Candidate] = []
    for candidate in choices.cohort:
        dealt = find_lease(candidate.update, previous, setting.defences_off)
        if dealt is not None:
            (cohort if dealt.plan is plan else late).append(candidate)
    waiting = None
    if promoted and setting.revision.schedule.lookahead:
        heard = {candidate.update.signer for candidate in cohort}
        silent = frozenset(lease.peer for lease in plan.roster if lease.peer not in heard)
        waiting = Waiting(silent, previous.id)
    delivered = [one for one in cohort if promoted and one.verdict is Verdict.ACCEPTED]
    delivered_late = [one for one in late if promoted and one.verdict is Verdict.ACCEPTED]
    return Work(
        tuple(cohort),
        tuple(late),
        (*delivered, *delivered_late),
        frozenset(PeerId(one.update.signer) for one in delivered),
        frozenset(PeerId(one.update.signer) for one in delivered_late),
        waiting,
    )


def judged(setting: "Setting", previous: Decision, choices: Choices, work: Work) -> State:
    """The state with standing moved, by what was late and then by the window itself."""
    state, schedule, height = previous.state, setting.revision.schedule, previous.height + 1
    together = _peers(state.plan)
    if state.late is not None:
        together |= _peers(state.late.plan)
        conduct = _conduct(state.late.plan, work.late_cohort, Conduct.LATE)
        paces = Paces(_said(state.late.plan, work.late_cohort), together)
        state = replace(state, standing=moved(state, conduct, schedule, height, paces))
    conduct = _conduct(state.plan, work.cohort, Conduct.DELIVERED)
    for peer in work.waiting.peers if work.waiting else ():
        del conduct[peer]
    conduct.update(_wrong_merges(previous, choices))
    paces = Paces(_said(state.plan, work.cohort), together)
    return replace(state, standing=moved(state, conduct, schedule, height, paces))


def _peers(plan: Plan) -> frozenset[PeerId]:
    return frozenset(lease.peer for lease in plan.roster)


def _said(plan: Plan, cohort: tuple[Candidate, ...]) -> dict[PeerId, int]:
    """What a microshard took those who delivered, in microseconds, by their own word."""
    said = {}
    for candidate in cohort:
        update = candidate.update
        lease, took_ms = plan.lease_of(update.signer), update.content.took_ms
        if lease is not None and took_ms and candidate.verdict is Verdict.ACCEPTED:
            said[lease.peer] = max(1, took_ms * 1000 // len(lease.shards))
    return said


def _conduct(
    plan: Plan, cohort: tuple[Candidate, ...], delivered: Conduct
) -> dict[PeerId, Conduct]:
    conduct = {lease.peer: Conduct.MISSED for lease in plan.roster}
    for candidate in cohort:
        peer = PeerId(candidate.update.signer)
        if candidate.verdict is Verdict.ACCEPTED:
            conduct[peer] = delivered
        elif candidate.verdict in HARMFUL:
            conduct[peer] = Conduct.HARMFUL
        elif candidate.verdict is Verdict.DISPUTED:
            del conduct[peer]
    return conduct


def _wrong_merges(previous: Decision, choices: Choices) -> Mapping[PeerId, Conduct]:
    """Reducers whose signed merge of the very inputs that were decided on has other bits."""
    right = previous.state.merge
    return {
        PeerId(reduction.signer): Conduct.WRONG_MERGE
        for reduction in choices.reductions
        if right is not None
        and reduction.content.inputs == right.inputs
        and reduction.content.merged != previous.merged
    }
