"""A reducer at one revision: merges the cohort as a proposal, never with authority. Times are seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import Setting, inputs_hash, merge_job
from p2pd.core.gates import gate
from p2pd.core.ids import ArtifactId, PeerId, UpdateId
from p2pd.core.messages import Beacon, Leave, Reduction, Service, Update
from p2pd.core.signed import Signed
from p2pd.core.validator.events import (
    Adopted,
    Fetched,
    FetchUpdate,
    Inspect,
    Inspected,
    Merge,
    MergeDone,
    ObjectSeen,
    Publish,
    RecordHeld,
)
from p2pd.core.voting.rules import Sign
from p2pd.core.window import Entry, Fetch, Window
from p2pd.core.work import InspectJob, Merged, Verdict
from p2pd.errors import RemoteError

Event = ObjectSeen | RecordHeld | Adopted | Fetched | Inspected | MergeDone
Effect = Publish | FetchUpdate | Inspect | Merge

Bend = Callable[[Merged], Merged]
"""What a lying reducer of the simulator makes of its result."""


def honest(merged: Merged) -> Merged:
    return merged


@dataclass(slots=True)
class Reducer:
    setting: Setting
    me: PeerId
    sign: Sign
    previous: Decision
    now_s: float
    bend: Bend = honest
    window: Window = field(init=False)
    entered: bool = field(init=False, default=False)
    over: bool = field(init=False, default=False)
    """The window has closed here: what comes now is not merged."""
    merging: bytes | None = field(init=False, default=None)
    """Inputs of the merge that is under way or done."""
    out: list[Effect] = field(init=False, default_factory=list)

    def resume(self, own: tuple[Signed[object], ...]) -> list[Effect]:
        """The first call after a start. own is what this node published for the open windows before."""
        self._enter()
        height = self.previous.state.plan.height
        self.over = any(
            isinstance(one.content, Reduction) and one.scope.height == height for one in own
        )
        return self._flush()

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        self.now_s = now_s
        match event:
            case Adopted(decision=decision):
                self.previous = decision
                self._enter()
            case ObjectSeen(signed=signed):
                self._on_object(signed)
            case RecordHeld():
                pass  # for validators
            case Fetched(artifact=artifact, here=here):
                self._on_fetched(artifact, here)
            case Inspected():
                self._on_inspected(event)
            case MergeDone(inputs=inputs, merged=merged):
                self._on_merged(inputs, merged)
            case _:
                assert_never(event)
        self._merge_when_over()
        return self._flush()

    def tick(self, now_s: float) -> list[Effect]:
        self.now_s = now_s
        self._merge_when_over()
        return self._flush()

    def leave(self) -> list[Effect]:
        """The last call: takes the presence of the open height back."""
        if self.previous.state.plan.state is not PlanState.FINISHED:
            self._publish("leave", Leave())
        return self._flush()

    def next_deadline_s(self) -> float | None:
        return self.window.closes_s() if self._drawn() and not self.over else None

    def activity(self) -> str:
        """What it does now, for people."""
        if not self._drawn():
            return "waiting to be drawn"
        return "merged" if self.over else f"gathering {len(self.window.entries)} updates"

    def _flush(self) -> list[Effect]:
        out, self.out = self.out, []
        return out

    def _drawn(self) -> bool:
        plan = self.previous.state.plan
        return self.me in plan.reducers and plan.state is PlanState.RUNNING

    def _enter(self) -> None:
        last = self.window if self.entered else None
        self.window = Window.after(last, self.setting, self.previous, self.now_s)
        self.entered = True
        self.over, self.merging = False, None
        if self.previous.state.plan.state is not PlanState.FINISHED:
            self._publish("beacon", Beacon(Service.REDUCE))

    def _publish(self, kind: str, content: object) -> None:
        scope = self.setting.scope(self.previous.height + 1)
        self.out.append(Publish(self.sign(kind, scope, content)))

    def _on_object(self, signed: Signed[Any]) -> None:
        self.window.hear(signed, self.now_s)
        if self._drawn() and isinstance(signed.content, Update):
            self._on_update(signed)

    def _on_update(self, update: Signed[Update]) -> None:
        if self.window.entries_of(update):
            return
        try:
            verdict = gate(self.setting, update, self.previous)
        except RemoteError:
            return
        entry = self.window.entries[UpdateId(update.id)] = Entry(update, None)
        if verdict is Verdict.ACCEPTED:
            self.out.append(FetchUpdate(update.content.artifact, update.signer))
        else:
            self.window.note_verdict(entry, verdict, "", self.now_s)

    def _on_fetched(self, artifact: ArtifactId, here: bool) -> None:
        for entry in self.window.entries.values():
            if entry.update.content.artifact == artifact and entry.verdict is None:
                entry.fetch = Fetch.HERE if here else Fetch.FAILED
                if here:
                    base, revision = entry.update.content.base, self.setting.revision
                    job = InspectJob(artifact, base, revision.schema, revision.codec)
                    self.out.append(Inspect(job))

    def _on_inspected(self, event: Inspected) -> None:
        for entry in self.window.entries.values():
            if entry.update.content.artifact != event.artifact or entry.verdict is not None:
                continue
            if event.inspection is None:
                entry.fetch = Fetch.FAILED
            else:
                self.window.note_verdict(
                    entry, event.inspection.verdict, event.inspection.detail, self.now_s
                )

    def _merge_when_over(self) -> None:
        closes_s = self.window.closes_s()
        if not self._drawn() or self.over or closes_s is None or self.now_s < closes_s:
            return
        self.over = True
        cohort = self.window.candidates(frozenset())
        job = merge_job(self.setting, self.previous, cohort)
        if job is not None:
            self.merging = inputs_hash(job)
            self.out.append(Merge(self.merging, job))

    def _on_merged(self, inputs: bytes, merged: Merged | None) -> None:
        if merged is not None and inputs == self.merging:
            reduction = Reduction(self.previous.id, inputs, self.bend(merged))
            self._publish("reduction", reduction)


def with_other_head(merged: Merged) -> Merged:
    """A lie that costs nothing to tell and is found by comparing one id."""
    return replace(merged, head=ArtifactId(bytes(len(merged.head))))
