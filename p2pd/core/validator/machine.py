"""A validator at one revision: gathers a window, closes it, proposes, checks, votes, adopts. Times are seconds.

Pure: effects come out in the order in which they must be carried out, jobs are answered by events.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, assert_never

from p2pd.core.decision import Decision, PlanState, Record
from p2pd.core.derive import UNDECIDED, merge_job
from p2pd.core.encoding import encode
from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, UpdateId, peer_id, short
from p2pd.core.leases import find_lease
from p2pd.core.messages import Choices, Reduction, Report, Update
from p2pd.core.signed import Signed
from p2pd.core.validator.body import dump_body
from p2pd.core.validator.building import build
from p2pd.core.validator.desk import Check, Desk
from p2pd.core.validator.events import (
    Adopt,
    Adopted,
    ChoicesFetched,
    Effect,
    EvaluationDone,
    Event,
    FetchChoices,
    Fetched,
    FetchOuter,
    Halt,
    Inspected,
    MergeDone,
    ObjectSeen,
    Publish,
    RecordHeld,
    Remember,
    remember_once,
)
from p2pd.core.validator.seat import Seat, accuse, hear_accusation
from p2pd.core.votes import Certificate, Vote
from p2pd.core.voting import events as voting
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.machine import Machine
from p2pd.core.voting.proposals import Proposal
from p2pd.core.voting.rules import Setup
from p2pd.core.voting.timers import CheckTimes
from p2pd.core.window import Entry, Fetch, Window
from p2pd.core.work import Evaluation, Merged

RECENT_HEADS = 50
UPDATES_PER_TRAINER = 2
"""A second one shows bad faith; a third would only fill memory."""


@dataclass(slots=True)
class Validator:
    seat: Seat
    checks: CheckTimes
    previous: Decision
    now_s: float
    evaluations: dict[ArtifactId, Evaluation | None] = field(default_factory=dict)
    recent: tuple[ArtifactId, ...] = ()
    halted: str = ""
    window: Window = field(init=False)
    desk: Desk = field(init=False)
    votes: Machine = field(init=False)
    decided: Certificate | None = field(init=False, default=None)
    reductions: dict[tuple[int, PeerId], Signed[Reduction]] = field(default_factory=dict)
    reported: ArtifactId | None = None
    records: dict[int, SignedGovernance] = field(default_factory=dict)
    """Of the governance log, by number: those that the chain has not taken."""
    bodies: dict[DecisionId, bytes] = field(default_factory=dict)
    """The choices behind values that others derived: here they must derive to the same."""
    inbox: deque[voting.Event] = field(default_factory=deque)
    settled: bool = field(init=False, default=False)
    """A height has begun since this process listened: its votes at it are all its own. Until then it may
    have come back with an old data directory, and have voted at heights that it only learns of now."""
    entered: bool = field(init=False, default=False)
    out: list[Effect] = field(init=False, default_factory=list)

    def resume(self, stored: bytes | None) -> list[Effect]:
        """The first call after a start. stored is what Remember said last of the height after previous."""
        self._enter(self.previous, stored)
        self._vote(voting.Resumed())
        for choices in self.votes.bound_to():
            self._start(choices)  # what it is bound to it must hold, pinned, and serve
        return self._flush()

    def handle(self, event: Event, now_s: float) -> list[Effect]:  # noqa: C901, PLR0912 - one arm an event
        self.now_s = now_s
        match event:
            case ObjectSeen(signed=signed):
                self._on_object(signed)
            case Adopted(decision=decision):
                self._compare(self.desk.checks.get(decision.choices), decision.id)
                self.settled = self.settled or not self.votes.listening
                self._enter(decision, None)
                if not self.settled:
                    self._vote(voting.Resumed())
            case RecordHeld(signed=record):
                self.records[record.record.number] = record
                self.window.add_record(record, now_s)
            case voting.PeerHeard():
                self._vote(event)
            case Fetched(artifact=artifact, here=here):
                self._on_fetched(artifact, here)
            case Inspected():
                self._on_inspected(event)
            case MergeDone(inputs=inputs, merged=merged):
                self._on_merged(inputs, merged)
            case EvaluationDone(head=head, evaluation=evaluation):
                self._on_evaluated(head, evaluation)
            case ChoicesFetched(value=value, choices=choices):
                self._on_choices(value, choices)
            case _:
                assert_never(event)
        self._settle()
        return self._flush()

    def tick(self, now_s: float) -> list[Effect]:
        self.now_s = now_s
        self._voting_effects(self.votes.tick(now_s))
        self._settle()
        return self._flush()

    def next_deadline_s(self) -> float | None:
        closes_s = self.window.closes_s() if self.desk.closed_s is None else None
        due = [at for at in (closes_s, self.votes.next_deadline_s()) if at is not None]
        return min(due, default=None)

    def choices_of(self, value: DecisionId) -> bytes | None:
        """Served, with their header, to validators that lack a value with a quorum of prevotes."""
        check = self.desk.derived.get(value)
        return dump_body(check.decision) if check and check.decision else None

    def _flush(self) -> list[Effect]:
        out, self.out = self.out, []
        return remember_once(out)

    # A height begins

    def _enter(self, previous: Decision, stored: bytes | None) -> None:
        setting = self.seat.setting
        if previous.head not in self.recent:
            self.recent = (*self.recent, previous.head)[-RECENT_HEADS:]
        # What could not be evaluated here is tried again.
        self.evaluations = {h: e for h, e in self.evaluations.items() if h in self.recent and e}
        self.previous, self.decided = previous, None
        self.bodies.clear()
        self.reductions = {
            key: one for key, one in self.reductions.items() if key[0] >= previous.height
        }
        late = [*self.window.evidence.values()] if self.entered else []
        last = self.window if self.entered else None
        self.window = Window.after(last, setting, previous, self.now_s)
        self.entered = True
        taken = previous.state.governed.log.number
        self.records = {number: one for number, one in self.records.items() if number > taken}
        for record in self.records.values():
            self.window.add_record(record, self.now_s)
        for evidence in late:
            self.out += accuse(self.seat, self.window, evidence, self.now_s)
        self.desk = Desk(
            setting,
            previous,
            self.window,
            self.seat.open_choices,
            self.evaluations,
            self.recent,
        )
        for entry in self.window.entries.values():  # late ones
            self.out += self.desk.look_at(entry)
        members = setting.electorate(previous.state.suspended)
        setup = Setup(
            members=members,
            scope=setting.scope(previous.height + 1),
            # Whose votes do not count, by suspension or by never having had a seat, follows in silence.
            me=self.seat.me if self.seat.me in members.weights else None,
            sign=self.seat.sign,
            checks=self.checks,
            undecided=encode(UNDECIDED),
            defences_off=setting.defences_off,
        )
        self.votes = Machine(setup, stored)
        if previous.state.plan.state is not PlanState.IDLE:
            jobs, _ = self.desk.canary(previous.head)
            self.out += jobs
            if previous.header.outer is not None:
                self.out.append(FetchOuter(previous.header.outer))
        self._report()

    # Objects

    def _on_object(self, signed: Signed[Any]) -> None:
        content = signed.content
        if isinstance(content, Reduction):
            self._on_reduction(signed)
        if isinstance(content, Update):
            self._on_update(signed)
        self.window.hear(signed, self.now_s)
        if signed.scope != self.seat.setting.scope(self.window.height):
            return
        if isinstance(content, Vote):
            self._vote(voting.VoteSeen(signed))
        elif isinstance(content, Proposal):
            self._vote(voting.ProposalSeen(signed))
        elif isinstance(content, Evidence):
            hear_accusation(self.seat, self.window, content, self.now_s)

    def _on_reduction(self, reduction: Signed[Reduction]) -> None:
        height = reduction.scope.height
        if self.previous.height <= height <= self.window.height:
            self.reductions.setdefault((height, reduction.signer), reduction)

    def _on_update(self, update: Signed[Update]) -> None:
        entries, off = self.window.entries, self.seat.setting.defences_off
        if UpdateId(update.id) in entries or find_lease(update, self.previous, off) is None:
            return
        if len(self.window.entries_of(update)) >= UPDATES_PER_TRAINER:
            return
        verdict = self.desk.known_verdict(update)
        entry = entries[UpdateId(update.id)] = Entry(update, None)
        if verdict is None:
            self.out += self.desk.look_at(entry)
        else:
            self.window.note_verdict(entry, verdict, verdict.name.lower(), self.now_s)

    # Answers to jobs

    def _on_fetched(self, artifact: ArtifactId, here: bool) -> None:
        if not here:
            self.desk.give_up(artifact)
            return
        for entry in self.window.entries.values():
            if entry.update.content.artifact == artifact and entry.fetch is not Fetch.HERE:
                entry.fetch = Fetch.HERE
                self.out += self.desk.look_at(entry)

    def _on_inspected(self, event: Inspected) -> None:
        inspection = event.inspection
        if inspection is None:
            self.desk.give_up(event.artifact)
            return
        self.desk.inspections[event.artifact] = inspection
        for entry in self.window.entries.values():
            if entry.update.content.artifact == event.artifact and entry.verdict is None:
                self.window.note_verdict(entry, inspection.verdict, inspection.detail, self.now_s)

    def _on_merged(self, inputs: bytes, merged: Merged | None) -> None:
        if merged is not None:
            self.desk.merged[inputs] = merged
        else:
            self.desk.note_failed_merge(inputs)

    def _on_evaluated(self, head: ArtifactId, evaluation: Evaluation | None) -> None:
        self.evaluations[head] = evaluation
        self._report()

    def _report(self) -> None:
        """Tells everybody, once, what the canonical head is worth on the whole validation set."""
        head = self.previous.head
        evaluation = self.evaluations.get(head)
        if self.reported == head or evaluation is None or not evaluation.finite:
            return
        if peer_id(self.seat.me) in self.previous.state.suspended:
            return
        self.reported = head
        report = Report(
            head, evaluation.metric, evaluation.loss, evaluation.samples, evaluation.figures
        )
        scope = self.seat.setting.scope(self.previous.height)
        self.out.append(Publish(self.seat.sign("report", scope, report)))

    def _on_choices(self, value: DecisionId, choices: bytes | None) -> None:
        """They were checked to be those behind value."""
        if choices is None or value in self.desk.derived:
            return
        self.bodies[value] = choices
        self._start(choices)

    # Voting

    def _vote(self, event: voting.Event) -> None:
        """Queued, so that effects keep the order in which the voting machine made them."""
        self.inbox.append(event)
        if len(self.inbox) > 1:
            return
        while self.inbox and not self.halted:
            self._voting_effects(self.votes.handle(self.inbox[0], self.now_s))
            self.inbox.popleft()

    def _voting_effects(self, effects: list[voting.Effect]) -> None:
        for effect in effects:
            self._on_voting(effect)

    def _on_voting(self, effect: voting.Effect) -> None:  # noqa: C901, PLR0912 - one arm an effect
        match effect:
            case voting.Persist(state=state):
                self.out.append(Remember(self.window.height, state))
            case voting.Send(message=message):
                self.out.append(Publish(message))
            case voting.Build(round=round_):
                built = encode(self._build(round_))
                self._vote(voting.Built(round_, built))
            case voting.Check(choices=choices):
                self._start(choices)
            case voting.FetchValue(value=value, holders=holders):
                self.out.append(FetchChoices(value, holders))
            case voting.Decided(certificate=certificate):
                self._on_decided(certificate)
            case voting.Accuse(evidence=evidence):
                self.out += accuse(self.seat, self.window, evidence, self.now_s)
            case voting.Closed():
                self._close()
            case voting.Forked(first=first, second=second):
                self._halt(
                    f"height {self.window.height} has two certified decisions, "
                    f"{short(first.value)} and {short(second.value)}: the authority must begin a new term"
                )
            case voting.RoundStarted():
                pass  # what people see of it is in the machine's view
            case voting.ForeignVote(message=message):
                self._halt(
                    f"another node votes with this key at height {message.scope.height}: "
                    "a copied identity; stop one of them"
                )
            case _:
                assert_never(effect)

    def _halt(self, why: str) -> None:
        self.halted = why
        self.out.append(Halt(why))

    def _start(self, choices: bytes) -> None:
        jobs, answer = self.desk.start(choices)
        self.out += jobs
        if answer is not None:
            self._vote(answer)

    def _compare(self, check: Check | None, certified: DecisionId) -> None:
        """The same choices that derive to another decision: this machine's arithmetic, or theirs, is wrong."""
        if check is None or check.decision is None or check.decision.id == certified:
            return
        self._halt(
            f"merge mismatch at {self.window.height}: mine {short(check.decision.id)}, "
            f"certified {short(certified)}"
        )

    def _settle(self) -> None:
        """Whatever the last event made possible: closing, going on with checks, adopting."""
        self.desk.note_target(self.now_s)
        closes_s = self.window.closes_s()
        if self.desk.closed_s is None and closes_s is not None and self.now_s >= closes_s:
            self._close()
            self._vote(voting.Close())
        progress = True
        while progress:
            jobs, answers = self.desk.go_on()
            self.out += jobs
            for answer in answers:
                self._vote(answer)
            progress = bool(answers)
        if self.decided is not None:
            self._adopt_if_known(self.decided)

    def _close(self) -> None:
        if self.desk.closed_s is not None:
            return
        self.desk.closed_s = self.now_s
        # The proposer's choices are most likely these: start on them at once.
        cohort = self.window.candidates(frozenset())
        job = merge_job(self.seat.setting, self.previous, cohort)
        if job is not None:
            self._start(encode(self._build(0)))

    # Proposing

    def _build(self, round_: int) -> Choices:
        objections = [each.vote for each in self.votes.objections()] if round_ > 0 else []
        return build(self.desk, objections, self.reductions, self.now_s)

    # The end of a height

    def _on_decided(self, certificate: Certificate) -> None:
        self.decided = certificate
        if certificate.value not in self.desk.derived:
            holders = tuple(vote.signer for vote in certificate.prevotes)
            self.out.append(FetchChoices(certificate.value, holders))

    def _adopt_if_known(self, certificate: Certificate) -> None:
        check = self.desk.derived.get(certificate.value)
        if check is None or check.decision is None:
            body = self.bodies.get(certificate.value)
            self._compare(self.desk.checks.get(body) if body else None, certificate.value)
            return
        self.decided = None
        self.out.append(Adopt(Record(check.decision, certificate)))
