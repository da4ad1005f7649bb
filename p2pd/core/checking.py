"""The objective checks of a proposal's choices: the same answer on every honest validator that holds the bytes.

They read no clock and no list of this node's own: only the decision before, the choices, and what these carry.
"""

from collections.abc import Mapping, Sequence

from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import UNDECIDED, Setting
from p2pd.core.gates import lease_behind
from p2pd.core.governance import RECORDS_PER_DECISION, check_endorsed
from p2pd.core.ids import ArtifactId, PublicKey, UpdateId
from p2pd.core.messages import ChoiceKind, Choices, accusation
from p2pd.core.revision import Schedule
from p2pd.core.signed import Signed
from p2pd.core.standing import may_serve
from p2pd.core.votes import Reason, ReasonKind, Step, Vote
from p2pd.core.voting.evidence import check_evidence
from p2pd.core.voting.members import Members
from p2pd.core.work import Verdict
from p2pd.errors import RemoteError

PRESENCE_PER_SEAT = 2
"""Beacons a proposal may carry per place on the roster, reducers included."""
PRESENCE_MORE = 64


def most_present(schedule: Schedule) -> int:
    return PRESENCE_PER_SEAT * schedule.max_roster + PRESENCE_MORE


def check_choices(setting: Setting, previous: Decision, choices: Choices) -> None:
    """All that can be checked before any tensor is fetched.

    Raises:
        RemoteError: the proposal breaks a rule; the message says which.
    """
    kind = choices.kind
    if kind is ChoiceKind.UNDECIDED:
        if choices != UNDECIDED:
            raise RemoteError("the undecided fall-back carries nothing")
        return
    state = previous.state.plan.state
    wanted = PlanState.IDLE if kind is ChoiceKind.IDLE else PlanState.RUNNING
    wakes = state is PlanState.FINISHED and kind is ChoiceKind.IDLE and choices.governance
    if state is not wanted and not wakes:
        raise RemoteError(f"{kind.name} proposed while the plan is {state.name}")
    if kind is ChoiceKind.REACHED:
        _check_target(previous, choices)
    members = setting.members(previous.state.suspended)
    _check_cohort(setting, previous, choices, members)
    _check_presence(setting, previous, choices)
    _check_reductions(setting, previous, choices)
    _check_grounds(setting, previous, choices, members)
    _check_accusations(setting, previous, choices, members)
    _check_governance(setting, previous, choices)


def _ascending(keys: Sequence[bytes], what: str) -> None:
    if list(keys) != sorted(set(keys)):
        raise RemoteError(f"{what} must be ascending, each once")


def _check_cohort(setting: Setting, previous: Decision, choices: Choices, members: Members) -> None:
    if choices.kind is ChoiceKind.IDLE and choices.cohort:
        raise RemoteError("an idle height has no cohort")
    _ascending([c.update.id for c in choices.cohort], "cohort")
    leases = [c.update.signer + c.update.content.plan for c in choices.cohort]
    _ascending(sorted(leases), "trainers of a cohort")
    disputed = objected(choices.grounds, members, len(choices.cohort))
    for candidate in choices.cohort:
        lease_behind(setting, candidate.update, previous)
        if candidate.verdict is Verdict.DISPUTED and candidate.update.id not in disputed:
            raise RemoteError("an update is called disputed without grounds")


def _check_presence(setting: Setting, previous: Decision, choices: Choices) -> None:
    most = most_present(setting.revision.schedule)
    if len(choices.presence) > most:
        raise RemoteError(f"{len(choices.presence)} beacons exceed the limit of {most}")
    _ascending([beacon.signer for beacon in choices.presence], "presence")
    scope = setting.scope(previous.height + 1)
    for beacon in choices.presence:
        if beacon.scope != scope:
            raise RemoteError(f"beacon for height {beacon.scope.height}, not {scope.height}")
        if not may_serve(previous.state, beacon.signer, scope.height):
            raise RemoteError("beacon of a peer in quarantine")


def _check_reductions(setting: Setting, previous: Decision, choices: Choices) -> None:
    _ascending([reduction.signer for reduction in choices.reductions], "reductions")
    merge = previous.state.merge
    for reduction in choices.reductions:
        if merge is None or reduction.signer not in merge.reducers:
            raise RemoteError("reduction of a peer that was not drawn")
        if (
            reduction.scope != setting.scope(previous.height)
            or reduction.content.plan != merge.plan
        ):
            raise RemoteError("reduction of another window than the last")


def _check_grounds(
    setting: Setting, previous: Decision, choices: Choices, members: Members
) -> None:
    scope = setting.scope(previous.height + 1)
    for vote in choices.grounds:
        content = vote.content
        if vote.scope != scope or vote.author not in members.weights:
            raise RemoteError("grounds must be votes of members for this height")
        if content.step is not Step.PREVOTE or content.value is not None:
            raise RemoteError("grounds must be nil prevotes")


def _check_accusations(
    setting: Setting, previous: Decision, choices: Choices, members: Members
) -> None:
    known = {*previous.state.suspended, *previous.state.pending}
    for evidence in choices.evidence:
        scope = accusation(evidence).scope
        if (scope.term, scope.revision) != (setting.term, setting.revision.id):
            raise RemoteError("evidence of another revision or term")
        if scope.height > previous.height + 1:
            raise RemoteError("evidence of a height to come")
        liar = check_evidence(setting.members(()), evidence)
        if liar is None or liar in known:
            raise RemoteError("evidence that shows nothing, or nothing new")
    _ascending([accusation(item).signer for item in choices.evidence], "evidence")


def _check_target(previous: Decision, choices: Choices) -> None:
    if previous.state.governed.ends.target is None:
        raise RemoteError("the run has no target to reach")
    if choices.cohort or choices.presence or choices.reductions or choices.grounds:
        raise RemoteError("what ends a run decides nothing else")


def _check_governance(setting: Setting, previous: Decision, choices: Choices) -> None:
    if len(choices.governance) > RECORDS_PER_DECISION:
        raise RemoteError(f"a decision takes at most {RECORDS_PER_DECISION} governance records")
    place = previous.state.governed.log
    for signed in choices.governance:
        check_endorsed(setting.genesis, signed)
        if not place.takes(signed.record):
            raise RemoteError(f"governance record {signed.record.number} does not follow")
        place = signed.place


def objected(grounds: Sequence[Signed[Vote]], members: Members, cohort: int) -> frozenset[bytes]:
    """Updates that may be dropped as disputed: named by weight a, or among the first few of a single key.

    A single key drops at most max(1, cohort / 4n) per height, so one liar cannot empty a cohort.
    """
    few = max(1, cohort // (4 * len(members.rows)))
    lists: dict[PublicKey, list[bytes]] = {}
    for vote in sorted(grounds, key=lambda vote: (vote.content.round, vote.author)):
        mine = lists.setdefault(vote.author, [])
        for reason in vote.content.reasons:
            if (
                reason.kind in (ReasonKind.VERDICT, ReasonKind.UNFETCHABLE)
                and reason.subject not in mine
            ):
                mine.append(reason.subject)
    weight: dict[bytes, int] = {}
    for key, subjects in lists.items():
        for subject in subjects:
            weight[subject] = weight.get(subject, 0) + members.weights[key]
    heavy = {subject for subject, total in weight.items() if total >= members.attention}
    return frozenset(heavy.union(*(subjects[:few] for subjects in lists.values())))


def blocked_by(grounds: Sequence[Signed[Vote]], head: ArtifactId, members: Members) -> bool:
    """Whether validators of weight a objected to this very head with their canaries."""
    wanted = Reason(ReasonKind.CANARY, head, 0)
    objectors = {vote.author for vote in grounds if wanted in vote.content.reasons}
    return sum(members.weights[key] for key in objectors) >= members.attention


def check_verdicts(choices: Choices, found: Mapping[UpdateId, Verdict]) -> tuple[Reason, ...]:
    """Where the proposal's verdicts differ from what this validator found: empty when they agree."""
    reasons = []
    for candidate in choices.cohort:
        mine = found[UpdateId(candidate.update.id)]
        if candidate.verdict is not Verdict.DISPUTED and candidate.verdict is not mine:
            reasons.append(Reason(ReasonKind.VERDICT, candidate.update.id, int(mine)))
    return tuple(reasons)
