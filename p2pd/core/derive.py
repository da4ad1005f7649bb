"""From the decision before, the choices and the merged tensors to the decision: the same bits everywhere."""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from p2pd.core.dealing import Table, deal, take_back
from p2pd.core.decision import (
    Decision,
    Header,
    LastMerge,
    Outcome,
    Plan,
    PlanState,
    State,
)
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.governance import Ends, Governed, beginning
from p2pd.core.ids import ArtifactId, PeerId, TermId, UpdateId, digest, peer_id
from p2pd.core.judging import judged, work_of
from p2pd.core.leases import find_lease
from p2pd.core.messages import Candidate, ChoiceKind, Choices, Service, accusation
from p2pd.core.revision import Revision
from p2pd.core.signed import Scope
from p2pd.core.standing import may_serve
from p2pd.core.voting.events import Defence
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.members import Member, Members
from p2pd.core.work import FULL, Merged, MergeInput, MergeJob, Progress, Verdict


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same over the life of a revision in one term."""

    genesis: Genesis
    revision: Revision
    defences_off: frozenset[Defence] = frozenset()
    """Only the simulator and tests name any, to show what a rule is for: no configuration reaches this."""
    _members: dict[tuple[PeerId, ...], Members] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """By who is suspended: asked for with each object that comes in."""

    @property
    def term(self) -> TermId:
        return TermId(self.genesis.network)

    def scope(self, height: int) -> Scope:
        revision = self.revision
        return Scope(self.genesis.network, self.term, revision.experiment, revision.id, height)

    def members(self, suspended: tuple[PeerId, ...]) -> Members:
        known = self._members.get(suspended)
        if known is None:
            known = self._members[suspended] = self._members_without(suspended)
        return known

    def _members_without(self, suspended: tuple[PeerId, ...]) -> Members:
        seats = [
            Member(peer_id(seat.key), seat.key, seat.weight) for seat in self.genesis.validators
        ]
        keys = [seat.key for seat in seats if seat.peer in suspended]
        return Members.of(seats, self.genesis.quorum, keys)

    def electorate(self, suspended: tuple[PeerId, ...]) -> Members:
        """Whose votes count: the signed set, never the peers that happen to be visible."""
        return self.members(suspended)


def genesis_decision(setting: Setting) -> Decision:
    """D(0): derived by anyone from the signed genesis and the signed revision."""
    revision = setting.revision
    bare = State(
        progress=Progress(0, revision.schedule.start_steps, 0, 0, 0),
        returned=(),
        in_hand=(),
        skipped=(),
        given_up=0,
        exponents=None,
        standing=(),
        suspended=(),
        pending=(),
        merge=None,
        governed=Governed(
            beginning(setting.genesis.network),
            Ends.of(revision),
        ),
        plan=Plan(0, PlanState.IDLE, revision.head, bytes(32), (), ()),
    )
    state = deal(bare, revision, Table(1, revision.head, None, (), ()))
    return _decision(setting, None, Outcome.PROMOTED, b"", None, state)


UNDECIDED = Choices(ChoiceKind.UNDECIDED, (), (), (), (), ())
"""E(h): what every validator falls back to."""


def merge_job(
    setting: Setting, previous: Decision, cohort: tuple[Candidate, ...]
) -> MergeJob | None:
    """What is to be merged of a cohort; None where nothing has weight."""
    plan, revision = previous.state.plan, setting.revision
    inputs = []
    for candidate in cohort:
        update, dealt = (
            candidate.update,
            find_lease(candidate.update, previous, setting.defences_off),
        )
        weight = weight_of(candidate, dealt.lease.samples if dealt else 0)
        if weight:
            base = update.content.base if update.content.base != plan.base else None
            inputs.append(MergeInput(UpdateId(update.id), update.content.artifact, weight, base))
    if not inputs:
        return None
    return MergeJob(
        base=plan.base,
        outer=previous.header.outer,
        schema=revision.schema,
        inputs=tuple(sorted(inputs, key=lambda one: one.update)),
        exponents=previous.state.exponents,
        rule=revision.merge,
        optimizer=revision.outer,
        codec=revision.codec,
        head_codec=revision.head_codec,
    )


def weight_of(candidate: Candidate, lease_samples: int) -> int:
    """samples x r x k, the samples capped by the lease. k is FULL until screening by loss exists."""
    if candidate.verdict is not Verdict.ACCEPTED:
        return 0
    return min(candidate.update.content.samples, lease_samples) * candidate.r * FULL


def inputs_hash(job: MergeJob) -> bytes:
    """What a reducer signs about what it merged."""
    return digest("merge-inputs", encode(job.inputs))


def derive(
    setting: Setting, previous: Decision, choices: Choices, encoded: bytes, merged: Merged | None
) -> Decision:
    """The decision that follows. The choices must have passed their checks; merged is for their cohort.

    encoded is the canonical encoding of choices: what the header binds.
    """
    if choices.kind is ChoiceKind.UNDECIDED:
        return _undecided(setting, previous, encoded)
    job = merge_job(setting, previous, choices.cohort)
    outcome = _outcome(choices.kind, job)
    if outcome is Outcome.FINISHED:
        state = _state_at_target(previous)
    else:
        state = _state_after_window(setting, previous, choices, job, merged, outcome)
    state = _suspend(setting, state, choices.evidence)
    governed = state.governed.after(choices.governance, setting.revision)
    state = replace(state, governed=governed)
    suspended = frozenset(state.suspended)
    offers = [b for b in choices.presence if b.signer not in suspended]
    present = [b.signer for b in offers if b.content.service is Service.TRAIN]
    reducers = [b.signer for b in offers if b.content.service is Service.REDUCE]
    promoted = outcome is Outcome.PROMOTED and merged is not None
    height = previous.height + 1
    table = Table(
        height=height + 1,
        base=merged.head if promoted and merged else previous.head,
        before=previous.id,
        present=tuple(peer for peer in present if may_serve(state, peer, height + 1)),
        reducers=tuple(peer for peer in reducers if may_serve(state, peer, height + 1)),
    )
    table = replace(table, earlier=_earlier(setting, previous, table.base))
    state = deal(state, setting.revision, table)
    return _decision(setting, previous, outcome, encoded, merged, state)


def _earlier(setting: Setting, previous: Decision, base: ArtifactId) -> tuple[ArtifactId, ...]:
    """What a reserved lease of the window just decided was started from, where it is not the next base."""
    old = previous.state.plan.base
    return (old,) if setting.revision.schedule.lookahead and old != base else ()


def _outcome(kind: ChoiceKind, job: MergeJob | None) -> Outcome:
    if kind in (ChoiceKind.IDLE, ChoiceKind.REACHED):
        return Outcome.IDLE if kind is ChoiceKind.IDLE else Outcome.FINISHED
    if job is None:
        return Outcome.EMPTY
    return Outcome.BLOCKED if kind is ChoiceKind.BLOCKED else Outcome.PROMOTED


def _undecided(setting: Setting, previous: Decision, encoded: bytes) -> Decision:
    plan = previous.state.plan
    state = replace(take_back(previous.state, frozenset(), in_vain=False), merge=None)
    table = Table(
        height=previous.height + 2,
        base=previous.head,
        before=previous.id,
        present=(
            *(lease.peer for lease in plan.roster),
            *(one.peer for one in previous.state.standby),
        ),
        reducers=plan.reducers,
        earlier=_earlier(setting, previous, previous.head),
    )
    state = deal(state, setting.revision, table)
    return _decision(setting, previous, Outcome.UNDECIDED, encoded, None, state)


def _state_at_target(previous: Decision) -> State:
    """The window is void: nobody is to blame that it was begun."""
    state = take_back(previous.state, frozenset(), in_vain=False)
    return replace(state, merge=None, governed=replace(state.governed, reached=True))


def _state_after_window(
    setting: Setting,
    previous: Decision,
    choices: Choices,
    job: MergeJob | None,
    merged: Merged | None,
    outcome: Outcome,
) -> State:
    promoted = outcome is Outcome.PROMOTED and merged is not None
    work = work_of(setting, previous, choices, promoted=promoted)
    merge = None
    if job is not None:
        merge = LastMerge(previous.id, inputs_hash(job), previous.state.plan.reducers)
    state = replace(judged(setting, previous, choices, work), merge=merge)
    after = take_back(
        state, work.delivered, in_vain=True, late=work.delivered_late, waiting=work.waiting
    )
    if not promoted or merged is None:
        return after
    samples = 0
    for candidate in work.counted:
        dealt = find_lease(candidate.update, previous, setting.defences_off)
        samples += min(candidate.update.content.samples, dealt.lease.samples if dealt else 0)
    steps = sorted(candidate.update.content.steps for candidate in work.counted)
    progress = replace(
        after.progress,
        heads=after.progress.heads + 1,
        steps=after.progress.steps + steps[len(steps) // 2],
        samples=after.progress.samples + samples,
    )
    exponents = merged.measured.exponents if merged.measured else None
    return replace(after, progress=progress, exponents=exponents)


def _suspend(setting: Setting, state: State, evidence: tuple[Evidence, ...]) -> State:
    suspended, pending = list(state.suspended), list(state.pending)
    weights = {member.peer: member.weight for member in setting.members(state.suspended).rows}
    left = sum(weights.values())
    for item in evidence:
        liar = accusation(item).signer
        if left - weights.get(liar, 0) >= setting.genesis.quorum:
            left -= weights.get(liar, 0)
            suspended.append(liar)
        else:
            pending.append(liar)
    return replace(state, suspended=tuple(suspended), pending=tuple(pending))


def _decision(
    setting: Setting,
    previous: Decision | None,
    outcome: Outcome,
    encoded: bytes,
    merged: Merged | None,
    state: State,
) -> Decision:
    before = previous.state.suspended if previous else ()
    header = Header(
        network=setting.genesis.network,
        term=setting.term,
        revision=setting.revision.id,
        height=previous.height + 1 if previous else 0,
        previous=previous.id if previous else None,
        members=members_hash(setting.members(before)),
        next_members=members_hash(setting.members(state.suspended)),
        outcome=outcome,
        head=state.plan.base,
        outer=_outer_after(previous, outcome, merged),
        choices=_choices_hash(encoded),
        merged=_merged_hash(merged),
        state=_state_hash(state),
    )
    return Decision(header, encoded, merged, state)


def _outer_after(
    previous: Decision | None, outcome: Outcome, merged: Merged | None
) -> ArtifactId | None:
    """A blocked step may be the velocity's doing: kept, it would have every later one blocked too."""
    if outcome is Outcome.PROMOTED and merged is not None:
        return merged.outer
    if previous is None or outcome is Outcome.BLOCKED:
        return None
    return previous.header.outer


def is_bound(setting: Setting, decision: Decision) -> bool:
    """Whether the header is that of this body: choices, merge and state."""
    header, state = decision.header, decision.state
    return (
        header.choices == _choices_hash(decision.choices)
        and header.merged == _merged_hash(decision.merged)
        and header.state == _state_hash(state)
        and header.next_members == members_hash(setting.members(state.suspended))
        and header.head == state.plan.base
        and header.height + 1 == state.plan.height
    )


def _choices_hash(encoded: bytes) -> bytes:
    return digest("choices", encoded)


def _merged_hash(merged: Merged | None) -> bytes:
    return digest("merged", encode(merged))


def _state_hash(state: State) -> bytes:
    return digest("state", encode(state))


@lru_cache(maxsize=64)
def members_hash(members: Members) -> bytes:
    return digest("members", encode((members.rows, members.quorum)))
