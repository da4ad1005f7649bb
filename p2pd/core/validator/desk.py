"""Checks of proposed choices, each as far as it got: fetch, inspect, merge, derive, evaluate. One desk per height."""

from collections.abc import Callable
from dataclasses import dataclass, field

from p2pd.core.canary import judge, reaches
from p2pd.core.checking import blocked_by, check_choices, check_verdicts
from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import Setting, derive, inputs_hash, merge_job
from p2pd.core.gates import gate
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, UpdateId
from p2pd.core.messages import Candidate, ChoiceKind, Choices, Update
from p2pd.core.signed import Signed
from p2pd.core.validator.events import Evaluate, FetchUpdate, Inspect, Job, Merge
from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.voting.events import Checked, Judgement
from p2pd.core.window import Entry, Fetch, Window
from p2pd.core.work import Evaluation, Inspection, InspectJob, Merged, Verdict
from p2pd.errors import RemoteError

UNJUDGED = (ChoiceKind.UNDECIDED, ChoiceKind.IDLE)
"""Choices that say nothing of the head that the window starts from."""
OpenChoices = Callable[[bytes], Choices]
"""Decodes choices and verifies all that is nested in them; raises RemoteError."""


@dataclass(slots=True)
class Check:
    """One proposal's choices on the way to an answer."""

    choices: Choices
    encoded: bytes
    decision: Decision | None = None
    answered: bool = False


@dataclass(slots=True)
class Desk:
    setting: Setting
    previous: Decision
    window: Window
    open_choices: OpenChoices
    evaluations: dict[ArtifactId, Evaluation | None]
    """Of recent heads, kept from height to height; None where one could not be evaluated."""
    recent: tuple[ArtifactId, ...]
    """The last promoted heads, the base among them."""
    merged: dict[bytes, Merged | None] = field(default_factory=dict)
    derived: dict[DecisionId, Check] = field(default_factory=dict)
    checks: dict[bytes, Check] = field(default_factory=dict)
    started: set[Job] = field(default_factory=set)
    inspections: dict[ArtifactId, Inspection] = field(default_factory=dict)
    """By artifact: several updates may name the same."""
    failed: set[bytes] = field(default_factory=set)
    """Inputs of merges that came to nothing here: tried again when they are proposed again."""
    closed_s: float | None = None
    """When this validator closed the window: what it held long before, a proposal must not omit."""

    def start(self, encoded: bytes) -> tuple[list[Job], Checked | None]:
        """Begins a check, or goes on with the one of the same choices."""
        check = self.checks.get(encoded)
        if check is None:
            try:
                choices = self.open_choices(encoded)
                check_choices(self.setting, self.previous, choices)
            except RemoteError:
                return [], Checked(encoded, None, False, Judgement.REJECT, ())
            check = self.checks[encoded] = Check(choices, encoded)
        self._try_again(check.choices)
        check.answered = False
        return self._advance(check)

    def _try_again(self, choices: Choices) -> None:
        """A proposal that names what could not be fetched before is a reason to ask once more."""
        for candidate in choices.cohort:
            entry = self.window.entries.get(UpdateId(candidate.update.id))
            if entry is not None and entry.fetch is Fetch.FAILED:
                entry.fetch = Fetch.WANTED
        job = merge_job(self.setting, self.previous, choices.cohort)
        if job is not None:
            self.failed.discard(inputs_hash(job))

    def go_on(self) -> tuple[list[Job], list[Checked]]:
        """What can be done now for all checks that wait, newest first."""
        jobs: list[Job] = []
        answers = []
        for check in reversed(list(self.checks.values())):
            if check.answered:
                continue
            more, answer = self._advance(check)
            jobs += more
            if answer is not None:
                answers.append(answer)
        return jobs, answers

    def look_at(self, entry: Entry) -> list[Job]:
        """The next job that brings one update nearer to its verdict."""
        if entry.verdict is not None or entry.fetch is Fetch.FAILED:
            return []
        if entry.fetch is Fetch.WANTED:
            return self._once(self._fetch_job(entry))
        content = entry.update.content
        revision = self.setting.revision
        job = InspectJob(content.artifact, content.base, revision.schema, revision.codec)
        return self._once(Inspect(job))

    def _fetch_job(self, entry: Entry) -> Job:
        return FetchUpdate(entry.update.content.artifact, PeerId(entry.update.signer))

    def _once(self, job: Job) -> list[Job]:
        if job in self.started:
            return []
        self.started.add(job)
        return [job]

    def give_up(self, artifact: ArtifactId) -> None:
        """This machine could not look at an update; it may be asked for again."""
        self.started = {
            job
            for job in self.started
            if not (isinstance(job, FetchUpdate) and job.artifact == artifact)
            and not (isinstance(job, Inspect) and job.job.artifact == artifact)
        }
        for entry in self.window.entries.values():
            if entry.update.content.artifact == artifact and entry.verdict is None:
                entry.fetch = Fetch.FAILED

    def note_failed_merge(self, inputs: bytes) -> None:
        self.failed.add(inputs)
        self.started = {
            job for job in self.started if not (isinstance(job, Merge) and job.inputs == inputs)
        }

    def _advance(self, check: Check) -> tuple[list[Job], Checked | None]:
        # What is disputed is dropped, so nobody needs its bytes.
        entries = [
            self._entry(candidate)
            for candidate in check.choices.cohort
            if candidate.verdict is not Verdict.DISPUTED
        ]
        lost = [e.update.id for e in entries if e.fetch is Fetch.FAILED and e.verdict is None]
        if lost:
            reasons = tuple(Reason(ReasonKind.UNFETCHABLE, update, 0) for update in lost)
            return [], self._answer(check, Judgement.REJECT, reasons, objective=False)
        jobs = [job for entry in entries for job in self.look_at(entry)]
        found = {
            UpdateId(entry.update.id): entry.verdict
            for entry in entries
            if entry.verdict is not None
        }
        if len(found) < len(entries):
            return jobs, None
        dropped = {UpdateId(c.update.id): Verdict.DISPUTED for c in check.choices.cohort}
        differ = check_verdicts(check.choices, {**dropped, **found})
        if differ:
            return jobs, self._answer(check, Judgement.REJECT, differ, objective=False)
        return self._derive(check, jobs)

    def _entry(self, candidate: Candidate) -> Entry:
        """The window's entry of a candidate; a proposal may be the first to name one."""
        update = candidate.update
        entry = self.window.entries.get(UpdateId(update.id))
        if entry is None:
            verdict = self.known_verdict(update)
            entry = Entry(update, verdict)
            self.window.entries[UpdateId(update.id)] = entry
        return entry

    def known_verdict(self, update: Signed[Update]) -> Verdict | None:
        """None if its tensors have yet to be looked at."""
        verdict = gate(self.setting, update, self.previous)
        if verdict is not Verdict.ACCEPTED:
            return verdict
        inspection = self.inspections.get(update.content.artifact)
        return None if inspection is None else inspection.verdict

    def _derive(self, check: Check, jobs: list[Job]) -> tuple[list[Job], Checked | None]:
        job = merge_job(self.setting, self.previous, check.choices.cohort)
        merged = None
        if job is not None:
            inputs = inputs_hash(job)
            merged = self.merged.get(inputs)
            if merged is None and inputs in self.failed:
                return jobs, self._answer(check, Judgement.REJECT, (), objective=False)
            if merged is None:
                return jobs + self._once(Merge(inputs, job)), None
        if check.choices.kind is ChoiceKind.BLOCKED and not self._is_blocked(check, merged):
            return jobs, self._answer(check, Judgement.REJECT, (), objective=False)
        if check.decision is None:
            check.decision = derive(
                self.setting, self.previous, check.choices, check.encoded, merged
            )
            self.derived[check.decision.id] = check
        return self._judge(check, merged, jobs)

    def _is_blocked(self, check: Check, merged: Merged | None) -> bool:
        members = self.setting.members(self.previous.state.suspended)
        return merged is not None and blocked_by(check.choices.grounds, merged.head, members)

    def _judge(
        self, check: Check, merged: Merged | None, jobs: list[Job]
    ) -> tuple[list[Job], Checked | None]:
        """Of the head that the window starts from, then of what has come of the window."""
        more, on_target = self._judge_target(check)
        if on_target is None:
            return jobs + more, None
        if on_target < 0:
            against = (Reason(ReasonKind.TARGET, self.previous.state.plan.base, 0),)
            return jobs, self._answer(check, Judgement.REJECT, against, objective=True)
        if check.choices.kind is not ChoiceKind.REACHED:
            return self._judge_window(check, merged, jobs)
        judgement = Judgement.ACCEPT if on_target else Judgement.UNSURE
        left_out = self._left_out(check, ReasonKind.IGNORED)
        if left_out:
            judgement = Judgement.REJECT
        return jobs, self._answer(check, judgement, left_out, objective=True)

    def _left_out(self, check: Check, *kinds: ReasonKind) -> tuple[Reason, ...]:
        if check.choices.kind is ChoiceKind.UNDECIDED or self.closed_s is None:
            return ()
        left_out = self.window.left_out(check.choices, self.closed_s)
        return tuple(one for one in left_out if not kinds or one.kind in kinds)

    def _judge_window(
        self, check: Check, merged: Merged | None, jobs: list[Job]
    ) -> tuple[list[Job], Checked | None]:
        left_out = self._left_out(check)
        verdict = 1
        if merged is not None:
            more, canary = self.canary(merged.head)
            if canary is None:
                return jobs + more, None
            verdict = canary
        if check.choices.kind is ChoiceKind.BLOCKED:
            verdict, left_out = -verdict, ()
        reasons = left_out
        if verdict < 0 and merged is not None and check.choices.kind is ChoiceKind.WINDOW:
            reasons = (Reason(ReasonKind.CANARY, merged.head, 0), *left_out)
        judgement = Judgement.UNSURE if verdict == 0 else Judgement.ACCEPT
        if verdict < 0 or left_out:
            judgement = Judgement.REJECT
        return jobs, self._answer(check, judgement, reasons, objective=True)

    def canary(self, head: ArtifactId) -> tuple[list[Job], int | None]:
        """1 accept, 0 unsure, -1 reject; None while evaluations are missing."""
        base = self.previous.state.plan.base
        missing = [one for one in (base, head) if one not in self.evaluations]
        if missing:
            return [job for one in missing for job in self._once(Evaluate(one))], None
        new, old = self.evaluations[head], self.evaluations[base]
        if new is None or old is None:
            return [], -1 if new is None else 0
        rivals = [self.evaluations.get(one) for one in self.recent if one != base]
        finite = [rival for rival in rivals if rival is not None and rival.finite]
        best = min(finite, key=lambda one: sum(one.private), default=None)
        return [], judge(new, old, best, self.setting.revision.canary)

    def above_target(self) -> int | None:
        """By how many millionths the head reaches the target; None where there is none, or it is not known."""
        state, revision = self.previous.state, self.setting.revision
        target, evaluation = state.governed.ends.target, self.evaluations.get(state.plan.base)
        if target is None or evaluation is None or not evaluation.finite:
            return None
        higher = revision.workload.higher_is_better
        return reaches(evaluation.metric, target, higher_is_better=higher)

    def note_target(self, now_s: float) -> None:
        """Whoever finds it reached waits for no more of this window; an idle height has none, and wakes first."""
        if self.window.state is not PlanState.RUNNING:
            return
        above = self.above_target()
        if above is not None and above >= 0 and self.window.target_s is None:
            self.window.target_s = now_s

    def _on_target(self, kind: ChoiceKind) -> int | None:
        """1 agrees with what is proposed, 0 unsure, -1 does not; None while the head is not evaluated."""
        if self.previous.state.plan.base not in self.evaluations:
            return None
        above, band = self.above_target(), self.setting.revision.schedule.target_band
        claimed = kind is ChoiceKind.REACHED
        if above is None:
            return 0
        if abs(above) < band:
            return 0
        return 1 if claimed == (above >= 0) else -1

    def _judge_target(self, check: Check) -> tuple[list[Job], int | None]:
        """As canary. Only a claim waits for the evaluation: what else is proposed stands without."""
        kind, base = check.choices.kind, self.previous.state.plan.base
        if self.previous.state.governed.ends.target is None or kind in UNJUDGED:
            return [], 1
        verdict = self._on_target(kind)
        if verdict is None and kind is not ChoiceKind.REACHED:
            return [], 1
        return ([] if verdict is not None else self._once(Evaluate(base))), verdict

    def _answer(
        self, check: Check, judgement: Judgement, reasons: tuple[Reason, ...], *, objective: bool
    ) -> Checked:
        check.answered = True
        value = check.decision.id if objective and check.decision else None
        return Checked(check.encoded, value, objective, judgement, reasons)
