"""Four validator machines that hear each other at once, with jobs answered by hand or by rule. Seconds are made up."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId, DecisionId, digest
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.validator.body import load_body
from p2pd.core.validator.events import (
    Adopt,
    Adopted,
    ChoicesFetched,
    Effect,
    Evaluate,
    EvaluationDone,
    Event,
    FetchChoices,
    Fetched,
    FetchOuter,
    FetchUpdate,
    Halt,
    Inspect,
    Inspected,
    Job,
    Merge,
    MergeDone,
    ObjectSeen,
    Publish,
    Remember,
)
from p2pd.core.validator.machine import Validator
from p2pd.core.validator.seat import Seat
from p2pd.core.voting.events import PeerHeard
from p2pd.core.voting.timers import CheckTimes
from p2pd.core.work import FULL, Evaluation, Figure, Inspection, Measured, Merged, Verdict
from p2pd.io.keys import Ed25519Signer
from p2pd.wire.envelope import load_choices, seal
from tests.core.builders import SETTING, VALIDATORS

T = TypeVar("T")
LOSS = 1_000_000
LIMIT_S = 30.0

Answer = Callable[[Job], Event | None]
"""None leaves the job to later."""


def merged_of(job: Merge) -> Merged:
    """As builders.merge makes it."""
    head = ArtifactId(digest("artifact", job.inputs + job.job.base))
    count = len(job.job.inputs)
    return Merged(head, None, "mean", (FULL,) * count, Measured(tuple(range(count)), (0,)))


FIGURES = (Figure("top5", 990_000),)


def evaluation(head: ArtifactId, loss: int = LOSS) -> Evaluation:
    private = tuple(loss + n for n in range(32))
    return Evaluation(head, True, 500_000, loss, 100, private, FIGURES)


def honest(job: Job) -> Event | None:
    match job:
        case FetchUpdate(artifact=artifact):
            return Fetched(artifact, here=True)
        case Inspect(job=inner):
            return Inspected(inner.artifact, Inspection(inner.artifact, Verdict.ACCEPTED, ""))
        case Merge():
            return MergeDone(job.inputs, merged_of(job))
        case Evaluate(head=head):
            return EvaluationDone(head, evaluation(head))
        case FetchChoices() | FetchOuter():
            return None


def busy(_: Job) -> Event | None:
    """Every job goes on for ever."""
    return None


@dataclass
class Chair:
    """One validator, over all its lives."""

    signer: Ed25519Signer
    setting: Setting
    decision: Decision
    now_s: float = 0.0
    answer: Answer = honest
    machine: Validator = field(init=False)
    stored: dict[int, bytes] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    """All that came out, in order."""
    waiting: list[Job] = field(default_factory=list)
    outbox: list[Signed[Any]] = field(default_factory=list)
    adopted: list[Decision] = field(default_factory=list)
    _inbox: deque[Event] = field(default_factory=deque)

    def start(self) -> None:
        network = self.setting.genesis.network

        def sign(kind: str, scope: Any, content: T) -> Signed[T]:
            return seal(self.signer, kind, scope, content)

        def open_choices(data: bytes) -> Choices:
            return load_choices(data, network)

        seat = Seat(self.setting, self.signer.key, sign, open_choices)
        self.machine = Validator(seat, CheckTimes(LIMIT_S), self.decision, self.now_s)
        self.waiting.clear()
        self._inbox.clear()
        self.outbox.clear()
        self._carry_out(self.machine.resume(self.stored.get(self.decision.height + 1)))
        self._drain()
        self.meet()

    def meet(self) -> None:
        """All validators are there, and say what they hold."""
        for member in self.setting.members(()).rows:
            self.give(PeerHeard(member.peer))

    def give(self, event: Event) -> None:
        self._inbox.append(event)
        self._drain()

    def _drain(self) -> None:
        while self._inbox and not self.halts:
            self._carry_out(self.machine.handle(self._inbox.popleft(), self.now_s))

    def see(self, *objects: Signed[Any]) -> None:
        for signed in objects:
            self.give(ObjectSeen(signed))

    def pass_time(self, until_s: float) -> None:
        """Keeps every deadline on the way."""
        while (due_s := self.machine.next_deadline_s()) is not None and due_s <= until_s:
            self.now_s = max(self.now_s, due_s)
            self._carry_out(self.machine.tick(self.now_s))
            self._drain()
            after_s = self.machine.next_deadline_s()
            assert after_s is None or after_s > self.now_s
        self.now_s = until_s

    def sent(self, kind: str) -> list[Any]:
        """Contents of what it published of a kind."""
        return [
            one.signed.content
            for one in self.effects
            if isinstance(one, Publish) and one.signed.kind == kind
        ]

    def jobs(self, kind: type[T]) -> list[T]:
        return [one for one in self.effects if isinstance(one, kind)]

    @property
    def halts(self) -> list[str]:
        return [one.why for one in self.effects if isinstance(one, Halt)]

    def _carry_out(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            match effect:
                case Remember(height=height, state=state):
                    self.stored[height] = state
                case Publish(signed=signed):
                    self.outbox.append(signed)
                case Adopt(record=record):
                    self.decision = record.decision
                    self.adopted.append(record.decision)
                    self._inbox.append(Adopted(record.decision))
                case Halt():
                    return
                case _:
                    self._do(effect)

    def _do(self, job: Job) -> None:
        event = self.answer(job)
        if event is None:
            self.waiting.append(job)
        else:
            self._inbox.append(event)


@dataclass
class Council:
    previous: Decision
    setting: Setting = SETTING
    now_s: float = 0.0
    chairs: list[Chair] = field(init=False)
    absent: set[int] = field(default_factory=set)
    """Neither heard nor told."""
    said: list[Signed[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chairs = [Chair(signer, self.setting, self.previous) for signer in VALIDATORS]

    def start(self) -> None:
        for chair in self._present():
            chair.start()
        self.exchange()

    def _present(self) -> list[Chair]:
        return [chair for n, chair in enumerate(self.chairs) if n not in self.absent]

    def see(self, *objects: Signed[Any]) -> None:
        for chair in self._present():
            chair.see(*objects)
        self.exchange()

    def exchange(self) -> None:
        """Until nobody has anything new to say."""
        while any(chair.outbox for chair in self._present()):
            for chair in self._present():
                said, chair.outbox = chair.outbox, []
                self.said += said
                for other in self._present():
                    other.see(*said)
            self._serve_choices()

    def _serve_choices(self) -> None:
        for chair in self._present():
            wanted = [job for job in chair.waiting if isinstance(job, FetchChoices)]
            for job in wanted:
                choices = self.choices_of(job.value)
                if choices is not None:
                    chair.waiting.remove(job)
                    chair.give(ChoicesFetched(job.value, choices))

    def choices_of(self, value: DecisionId) -> bytes | None:
        for chair in self._present():
            body = chair.machine.choices_of(value)
            if body is not None:
                return load_body(body, value, limit_bytes=2**24)
        return None

    def pass_time(self, duration_s: float, step_s: float = 0.25) -> None:
        end_s = self.now_s + duration_s
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + step_s)
            for chair in self._present():
                chair.pass_time(self.now_s)
            self.exchange()
