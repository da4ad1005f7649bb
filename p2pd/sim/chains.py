"""The revisions of a simulated fleet: what each trains, which nodes serve it, and who watches it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.revision import (
    Canary,
    DataSpec,
    Revision,
    Schedule,
    SignedRevision,
    WorkloadSpec,
)
from p2pd.core.work import MILLION, MergeRule
from p2pd.sim import scripted
from p2pd.sim.breaking import setting_of
from p2pd.sim.checkers import Checkers
from p2pd.sim.liveness import Pulse
from p2pd.sim.lives import TWIN, Life
from p2pd.sim.shape import FleetShape, RunEnds
from p2pd.sim.signing import SimSigner
from p2pd.sim.watched import WatchedLane
from p2pd.wire.records import seal_revision


def revision_of(seed: int, shape: FleetShape, genesis: Genesis, number: int) -> SignedRevision:
    """Both revisions start from the same head, on the same data in another order."""
    head = manifest_of(ArtifactKind.HEAD, scripted.SCHEMA.id, encode(scripted.START)).id
    name = f"r{number + 1}"
    revision = Revision(
        network=genesis.network,
        study="simulated",
        experiment="walk",
        name=name,
        workload=WorkloadSpec("scripted", "{}", scripted.SOURCE, "closeness", True),
        schema=scripted.SCHEMA,
        data=DataSpec("indexed", scripted.TRAIN_SAMPLES, scripted.SHARD_SAMPLES),
        schedule=Schedule(
            lease_shards=6,
            max_lease_shards=12,
            max_roster=shape.max_roster,
            deadline_ms=12_000,
            settle_ms=1000,
            check_limit_ms=15_000,
            end_heads=shape.end_of(number),
            target=scripted.END_METRIC if shape.ends is RunEnds.TARGET else None,
            target_band=scripted.END_BAND,
            end_epochs=0,
            lookahead=shape.lookahead,
            reconcile=shape.reconcile,
        ),
        merge=MergeRule("norm_clipped_mean", 2 * MILLION, 0),
        outer=shape.outer,
        canary=Canary(samples=32, accept=100_000, reject=500_000),
        head=head,
        seed=sha256(f"{seed}/data/{name}".encode()).digest(),
        head_codec=shape.heads.value,
    )
    return seal_revision(revision, (SimSigner(seed, "authority"),))


@dataclass(slots=True)
class Chain:
    """One revision, with those who watch what becomes of it."""

    signed: SignedRevision
    setting: Setting
    """By which honest nodes play."""
    checkers: Checkers
    names: tuple[str, ...]
    """Of the nodes that serve it."""
    heads: int
    """After so many it is finished."""
    spoilt: bool
    """A trainer of it sends what spoils each merge."""
    pulse: Pulse = field(init=False)
    over: bool = False

    def __post_init__(self) -> None:
        self.await_after(0.0)

    def await_after(self, faults_end_s: float) -> None:
        self.pulse = Pulse(faults_end_s, self.signed.revision.schedule, self.spoilt)

    def is_served_by(self, name: str) -> bool:
        return name.removesuffix(TWIN) in self.names

    def lane_of(self, life: Life) -> WatchedLane | None:
        revision = self.signed.revision.id
        lanes = (one for one in life.lanes if one.signed.revision.id == revision)
        return next(lanes, None)

    def tips(self, lives: Mapping[str, Life]) -> dict[str, Decision]:
        lanes = {name: self.lane_of(life) for name, life in lives.items()}
        return {name: lane.decision for name, lane in lanes.items() if lane is not None}

    def is_over(self, lives: Mapping[str, Life], heads: int) -> bool:
        """Every node stands on the same last decision, after so many heads at least, or at the target."""
        tips = self.tips(lives)
        return len({tip.id for tip in tips.values()}) == 1 and all(
            name in tips and _is_done(tips[name], heads) for name in self.names
        )

    def took(self, number: int) -> bool:
        """Some decision has taken so many governance records."""
        chain = self.checkers.chain
        return bool(chain) and chain[max(chain)].state.governed.log.number >= number

    def begin_term(self, number: int, shape: FleetShape) -> None:
        """What the old term decided or signed is abandoned."""
        plain = Setting(self.setting.genesis, self.signed.revision)
        self.setting = setting_of(plain, number, shape.broken)
        self.checkers.begin_term(self.setting)

    def keeps_going(self, lives: Mapping[str, Life], now_s: float) -> bool:
        """False if the next decision, or the next head, has taken too long."""
        chain = self.checkers.chain
        height = max(chain, default=0)
        heads = chain[height].state.progress.heads if chain else 0
        wanted = 0 if self.pulse.is_held(height) else self.heads
        self.over = now_s >= self.pulse.faults_end_s and self.is_over(lives, wanted)
        return self.over or self.pulse.beats(height, heads, now_s)

    def end(self, lives: Mapping[str, Life]) -> None:
        self.checkers.on_end(self.tips(lives), stalled="" if self.over else self.pulse.stalled)


def _is_done(tip: Decision, heads: int) -> bool:
    return tip.state.progress.heads >= heads or tip.state.governed.reached
