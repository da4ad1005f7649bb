"""A trainer at one revision: shows presence, trains its leases, publishes. Times are seconds.

Without lookahead it waits for each decision before it trains on. With lookahead it goes on with what is
reserved for it, from its own state, and an update may be published a window late.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from p2pd.core.decision import Decision, Lease, Plan, PlanState
from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId, DecisionId, PeerId, digest
from p2pd.core.lease_data import BringData, DataBrought
from p2pd.core.messages import TOOK_MOST_MS, Beacon, Leave, Release, Service, Update
from p2pd.core.pace import roughly
from p2pd.core.reconcile import start_of
from p2pd.core.rest import Rest
from p2pd.core.signed import Signed
from p2pd.core.task import Task
from p2pd.core.validator.events import Adopted, Fetched, ObjectSeen, Publish, RecordHeld
from p2pd.core.voting.rules import Sign
from p2pd.core.work import TrainJob, TrainResult

REST_S, REST_MOST_S = 5.0, 300.0
"""From its workload, or from data that cannot be had."""
REMEMBERED = 2
"""Of so many last leases a worker keeps the steps: with lookahead no more are undecided at a time."""


@dataclass(frozen=True, slots=True)
class Trained:
    """Answers Train."""

    job: TrainJob
    result: TrainResult | None
    why: str
    """What went wrong where there is no result."""


@dataclass(frozen=True, slots=True)
class FetchBase:
    """Job: get the head that the plan starts from. Answered by Fetched."""

    artifact: ArtifactId


@dataclass(frozen=True, slots=True)
class Train:
    """Job, answered by Trained. A later one replaces it: its work is abandoned."""

    job: TrainJob


@dataclass(frozen=True, slots=True)
class Abandon:
    """Stop training, and what is done for it: the lease is over, or somebody else's."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Its owner wants the machine for something else: it gives up its lease and its presence."""

    why: str


@dataclass(frozen=True, slots=True)
class Resumed:
    pass


Event = ObjectSeen | RecordHeld | Adopted | Fetched | DataBrought | Trained | Paused | Resumed
Effect = Publish | FetchBase | BringData | Train | Abandon


@dataclass(slots=True)
class Trainer:
    setting: Setting
    me: PeerId
    sign: Sign
    previous: Decision
    done: int = 0
    """Height of the newest plan whose lease was answered, by an update or a release."""
    task: Task | None = None
    undecided: dict[int, ArtifactId] = field(default_factory=dict)
    """Heights of own updates that no decision has looked at yet, with the heads that they started from."""
    steps_ahead: int = 0
    """Of the last update: the certified progress does not count them yet."""
    tried: bool = False
    """The reserved lease failed: it is tried again as a lease of its own plan."""
    paused: str = ""
    """Why it rests; empty where it works."""
    rest: Rest = field(default_factory=lambda: Rest(REST_S, REST_MOST_S))
    """While it rests it shows no presence, and gives back what it is dealt."""
    now_s: float = 0.0
    out: list[Effect] = field(default_factory=list)

    def resume(
        self, own: tuple[Signed[object], ...], before: Decision | None = None
    ) -> list[Effect]:
        """The first call after a start.

        own is what this node published for the open windows; before: the decision before the last one.
        """
        now, own = self.previous, tuple(sorted(own, key=lambda one: one.scope.height))
        if before is not None and self._was_ahead(own, before):
            self.previous = before
            self._recall(own)
            self._begin()
            self._on_adopted(now)
        else:
            self._recall(own)
            self._enter()
        return self._flush()

    def _recall(self, own: tuple[Signed[object], ...]) -> None:
        height = self.previous.state.plan.height
        for one in own:
            if isinstance(one.content, Update | Release) and one.scope.height == height:
                self.done = height
            if isinstance(one.content, Update):
                self.steps_ahead = one.content.steps
                if self._is_open(one.scope.height):
                    self.undecided[one.scope.height] = one.content.base

    def _was_ahead(self, own: tuple[Signed[object], ...], before: Decision) -> bool:
        """It had published in time for the last decision, and so gone on with what was reserved before that came."""
        height = before.state.plan.height
        told = [one.scope.height for one in own if isinstance(one.content, Update | Release)]
        return (
            self.setting.revision.schedule.lookahead > 0
            and self.previous.header.previous == before.id
            and told[-1:] == [height]
            and not self._is_open(height)
        )

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        self._turn_to(now_s)
        match event:
            case Adopted(decision=decision):
                self._on_adopted(decision)
            case Fetched(artifact=artifact, here=here):
                self._on_base(artifact, here)
            case DataBrought():
                self._on_data(event)
            case Trained():
                self._on_trained(event)
            case Paused(why=why):
                self._on_paused(why)
            case Resumed():
                self._on_resumed()
            case ObjectSeen() | RecordHeld():
                pass
            case _:
                assert_never(event)
        return self._flush()

    def tick(self, now_s: float) -> list[Effect]:
        self._turn_to(now_s)
        return self._flush()

    def leave(self) -> list[Effect]:
        """The last call: takes the presence of the open height back, and gives its lease up."""
        if not self.paused:
            self._say_leave()
        return self._flush()

    def _say_leave(self) -> None:
        if self.previous.state.plan.state is not PlanState.FINISHED:
            self._publish("leave", Leave())

    def _on_paused(self, why: str) -> None:
        before, self.paused = self.paused, why
        if before:
            return
        self._drop_task()
        self._say_leave()

    def _on_resumed(self) -> None:
        if self.paused:
            self.paused = ""
            self._enter()

    def next_deadline_s(self) -> float | None:
        return self.rest.until_s if self.resting else None

    @property
    def resting(self) -> bool:
        return self.rest.is_on(self.now_s)

    def _turn_to(self, now_s: float) -> None:
        rested = self.resting and not self.rest.is_on(now_s)
        self.now_s = now_s
        if rested:
            self._enter()

    def _flush(self) -> list[Effect]:
        out, self.out = self.out, []
        return out

    @property
    def lease(self) -> Lease | None:
        return self.previous.state.plan.lease_of(self.me)

    @property
    def published(self) -> bool:
        """The open plan's lease is answered."""
        return self.done >= self.previous.state.plan.height

    @property
    def training(self) -> bool:
        return self.task is not None and self.task.started and self.task.result is None

    def _on_adopted(self, decision: Decision) -> None:
        self.previous, self.tried = decision, False
        self.undecided = {h: base for h, base in self.undecided.items() if self._is_open(h)}
        if self.task is not None and not self._is_wanted(self.task):
            self._drop_task()
        if self.task is not None and self.task.base != decision.state.plan.base:
            self.out.append(
                FetchBase(decision.state.plan.base)
            )  # its next lease shall not wait for it
        self._enter()

    def _drop_task(self) -> None:
        if self.task is not None and self.task.result is None:
            self.out.append(Abandon())
        self.task = None

    def _is_open(self, height: int) -> bool:
        """Whether an own update for the plan of a height may still be decided."""
        late = self.previous.state.late
        if late is not None and late.plan.height == height:
            return late.plan.lease_of(self.me) is not None
        return height == self.previous.state.plan.height

    def _is_wanted(self, task: Task) -> bool:
        """What was reserved must have become the lease; what was a lease may have become a late one."""
        state, lease = self.previous.state, self.lease
        if task.plan is not None:
            late = state.late
            return (
                late is not None
                and late.dealt == task.plan
                and late.plan.lease_of(self.me) is not None
            )
        plan = state.plan
        dealt = lease is not None and (plan.height, lease.shards) == (task.height, task.shards)
        if not dealt or task.base not in (plan.base, *plan.earlier):
            return False
        task.plan = self.previous.id
        return True

    def _enter(self) -> None:
        if self.paused:
            return
        if self.previous.state.plan.state is not PlanState.FINISHED and not self.resting:
            self._publish("beacon", Beacon(Service.TRAIN))
        self._publish_if_ready()
        self._begin()

    def _publish(self, kind: str, content: object) -> None:
        """Of the open height."""
        scope = self.setting.scope(self.previous.height + 1)
        self.out.append(Publish(self.sign(kind, scope, content)))

    def _begin(self) -> None:
        """Takes up the lease, and once that is published, what is reserved."""
        plan, lease = self.previous.state.plan, self.lease
        if self.task is not None or lease is None or self.paused:
            return
        if not self.published:
            self.task = self._task(plan.height, lease.shards, self.previous.id)
        elif lease.reserved and plan.height in self.undecided and not self.tried:
            self.task = self._task(plan.height + 1, lease.reserved, None)
        else:
            return
        if self.resting:
            self._fail(self.task, f"resting: it failed {self.rest.failures} times in a row")
            return
        self.out.append(FetchBase(plan.base))
        if not self.task.data_here:
            self.out.append(BringData(self.task.height, self.task.shards))

    def _on_base(self, artifact: ArtifactId, here: bool) -> None:
        task = self.task
        if task is None or artifact != task.base or task.started:
            return
        if here:
            task.base_here = True
            self._train_if_ready(task)
        else:
            self._fail(task, "the base head could not be fetched")

    def _on_data(self, event: DataBrought) -> None:
        task = self.task
        if task is None or task.started or event.job != BringData(task.height, task.shards):
            return  # in advance, for a lease that is over, or once more
        if event.why:
            self.rest.failed(self.now_s)
            self._fail(task, event.why)
            return
        task.data_here = True
        self._train_if_ready(task)
        if task.plan is not None and (lease := self.lease) is not None and lease.reserved:
            self.out.append(BringData(task.height + 1, lease.reserved))

    def _train_if_ready(self, task: Task) -> None:
        if task.base_here and task.data_here:
            task.started = True
            self.out.append(Train(task.job))

    def _task(self, height: int, shards: tuple[int, ...], plan: DecisionId | None) -> Task:
        revision, state = self.setting.revision, self.previous.state
        schedule, progress, base = revision.schedule, state.progress, state.plan.base
        if plan is None:
            progress = replace(progress, steps=progress.steps + self.steps_ahead)
        start = start_of(
            schedule.reconcile, schedule.own_weight, self.undecided, base, ahead=plan is None
        )
        job = TrainJob(
            height=height,
            base=base,
            shards=shards,
            shard_samples=revision.data.shard_samples,
            progress=progress,
            seed=lease_seed(state.plan, self.me, height),
            owner=self.me,
            codec=revision.codec,
            carry=start.carry,
            remember=REMEMBERED if schedule.lookahead else 0,
            own=start.own if schedule.lookahead else 0,
        )
        return Task(height, shards, base, plan, job, data_here=revision.data.shard_set is None)

    def _on_trained(self, event: Trained) -> None:
        task = self.task
        if task is None or event.job != task.job:
            return
        if event.result is None:
            self.rest.failed(self.now_s)
            self._fail(task, event.why)
            return
        self.rest.went_well()
        task.result = event.result
        self._publish_if_ready()
        self._begin()

    def _publish_if_ready(self) -> None:
        task = self.task
        if task is None or task.plan is None or task.result is None:
            return
        result = task.result
        update = Update(
            plan=task.plan,
            base=task.base,
            artifact=result.artifact,
            size_bytes=result.size_bytes,
            samples=result.samples,
            steps=result.steps,
            took_ms=min(TOOK_MOST_MS, roughly(max(1, round(result.seconds * 1000)))),
        )
        self.out.append(Publish(self.sign("update", self.setting.scope(task.height), update)))
        self.undecided[task.height] = task.base
        self.done, self.steps_ahead = max(self.done, task.height), result.steps
        self.task = None

    def _fail(self, task: Task, why: str) -> None:
        self.task = None
        if task.plan is None:
            self.tried = True
        elif task.height == self.previous.state.plan.height:
            self.done = task.height
            self._publish("release", Release(task.plan, why[:500]))
        self._begin()


def lease_seed(plan: Plan, me: PeerId, height: int) -> int:
    """Of the lease of one trainer: what all drew alike, masks or samples, no mean would level out."""
    return int.from_bytes(digest("lease-seed", plan.seed + height.to_bytes(8) + me)[:8])
