"""A trainer at one revision: shows presence, trains its leases, publishes. Times are seconds."""

from dataclasses import dataclass, field
from typing import assert_never

from p2pd.core.decision import Decision, Lease, PlanState
from p2pd.core.derive import Setting
from p2pd.core.ids import ArtifactId, PeerId
from p2pd.core.messages import Beacon, Release, Service, Update
from p2pd.core.signed import Signed
from p2pd.core.validator.events import Adopted, Fetched, ObjectSeen, Publish
from p2pd.core.voting.rules import Sign
from p2pd.core.work import TrainJob, TrainResult


@dataclass(frozen=True, slots=True)
class Trained:
    """Answers Train."""

    height: int
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
    """Stop training: the window is over."""


Event = ObjectSeen | Adopted | Fetched | Trained
Effect = Publish | FetchBase | Train | Abandon


@dataclass(slots=True)
class Trainer:
    setting: Setting
    me: PeerId
    sign: Sign
    previous: Decision
    published: bool = False
    """This window's update or release is out."""
    training: bool = False
    out: list[Effect] = field(default_factory=list)

    def resume(self, own: tuple[Signed[object], ...]) -> list[Effect]:
        """The first call after a start. own is what this node published at the open height before."""
        self.published = any(isinstance(one.content, Update | Release) for one in own)
        self._enter()
        return self._flush()

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        match event:
            case Adopted(decision=decision):
                self.previous, self.published = decision, False
                if self.training:
                    self.out.append(Abandon())
                self.training = False
                self._enter()
            case Fetched(artifact=artifact, here=here):
                self._on_base(artifact, here)
            case Trained():
                self._on_trained(event)
            case ObjectSeen():
                pass
            case _:
                assert_never(event)
        return self._flush()

    def tick(self, now_s: float) -> list[Effect]:
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def _flush(self) -> list[Effect]:
        out, self.out = self.out, []
        return out

    @property
    def lease(self) -> Lease | None:
        return self.previous.state.plan.lease_of(self.me)

    def _enter(self) -> None:
        plan = self.previous.state.plan
        if plan.state is not PlanState.FINISHED:
            self._publish("beacon", Beacon(Service.TRAIN))
        if self.lease is not None and not self.published:
            self.out.append(FetchBase(plan.base))

    def _publish(self, kind: str, content: object) -> None:
        scope = self.setting.scope(self.previous.height + 1)
        self.out.append(Publish(self.sign(kind, scope, content)))

    def _on_base(self, artifact: ArtifactId, here: bool) -> None:
        plan, lease = self.previous.state.plan, self.lease
        if lease is None or artifact != plan.base or self.published or self.training:
            return
        if not here:
            self._release("the base head could not be fetched")
            return
        self.training = True
        job = TrainJob(
            height=plan.height,
            base=plan.base,
            shards=lease.shards,
            shard_samples=self.setting.revision.data.shard_samples,
            progress=self.previous.state.progress,
            seed=int.from_bytes(plan.seed[:8]),
            owner=self.me,
            codec=self.setting.revision.codec,
        )
        self.out.append(Train(job))

    def _on_trained(self, event: Trained) -> None:
        plan = self.previous.state.plan
        if event.height != plan.height or not self.training:
            return
        self.training = False
        result = event.result
        if result is None:
            self._release(event.why)
            return
        self.published = True
        update = Update(
            plan=self.previous.id,
            base=plan.base,
            artifact=result.artifact,
            size_bytes=result.size_bytes,
            samples=result.samples,
            steps=result.steps,
        )
        self._publish("update", update)

    def _release(self, why: str) -> None:
        self.published = True
        self._publish("release", Release(self.previous.id, why[:500]))
