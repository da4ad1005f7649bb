"""A whole fleet in one process: the real core, wire, node and roles, on a network and stores in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from random import Random

import trio
from nacl.signing import SigningKey

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import PeerId, PublicKey, peer_id
from p2pd.core.revision import (
    Canary,
    DataSpec,
    Revision,
    Schedule,
    SignedRevision,
    WorkloadSpec,
)
from p2pd.core.voting.events import Defence
from p2pd.core.work import MILLION, MergeRule, OuterRule
from p2pd.node.discovery import Seed
from p2pd.node.node import Node, Parts
from p2pd.node.plugins import load_role
from p2pd.ports import Worker
from p2pd.sim import scripted
from p2pd.sim.breaks import ATTACKS, RULES, Break
from p2pd.sim.checkers import Checkers
from p2pd.sim.ends import IDLE_S
from p2pd.sim.faults import Crash, Cut, Fault, FaultSet, apply_faults, draw_faults
from p2pd.sim.liars import Lie, LyingWorker
from p2pd.sim.links import Partition
from p2pd.sim.lying import LyingLane
from p2pd.sim.lying_validators import tongue_of
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryBlobs, MemoryLedger
from p2pd.sim.watched import VisibleSetting, WatchedLane
from p2pd.wire.records import seal_revision

FAULTS_END_S = 90.0
GRACE_S = 240.0
"""Virtual seconds after the last fault in which the run must come to its end."""
POLL_S = 1.0
EPOCH_MS = 1_800_000_000_000
SEED_ADDRESS = "10.0.0.1:7000"
"""Of the first node that joins."""


PLAIN_MEAN = OuterRule("mean", MILLION, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    validators: int = 3
    quorum: int = 2
    trainers: int = 3
    reducers: int = 1
    windows: int = 10
    faults: FaultSet = FaultSet.ALL
    broken: Break | None = None
    outer: OuterRule = PLAIN_MEAN
    liars: tuple[tuple[str, Lie], ...] = ()
    """Names of nodes, and what each does wrong."""
    doubts: float = 0.0
    """How often a validator's own samples reject a head that others accept."""

    def attacked(self, broken: Break) -> "FleetShape":
        """The same with a defence switched off, and with those who know how to use that."""
        attack = ATTACKS[broken]
        return replace(
            self,
            broken=broken,
            validators=attack.validators,
            quorum=attack.quorum,
            liars=attack.liars,
            doubts=attack.doubts,
        )

    def names(self) -> tuple[str, ...]:
        return (
            "seed1",
            *(f"validator{n}" for n in range(1, self.validators + 1)),
            *(f"reducer{n}" for n in range(1, self.reducers + 1)),
            *(f"trainer{n}" for n in range(1, self.trainers + 1)),
            "viewer1",
        )


ROLES = {
    "seed": "bootstrap",
    "validator": "validator",
    "reducer": "reducer",
    "trainer": "trainer",
    "viewer": "viewer",
}


class SimSigner:
    """Port Signer, with a key that follows from seed and name."""

    def __init__(self, seed: int, name: str) -> None:
        self._key = SigningKey(sha256(f"{seed}/{name}".encode()).digest())
        self.key = PublicKey(bytes(self._key.verify_key))

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message).signature


@dataclass(slots=True)
class Life:
    """One node of the fleet, over all its lives."""

    name: str
    signer: SimSigner
    ledger: MemoryLedger
    blobs: MemoryBlobs
    lives: int = 0
    scope: trio.CancelScope | None = None
    lane: WatchedLane | None = None
    tip: Decision | None = None
    power_off: Callable[[], None] = field(default=lambda: None)


@dataclass(slots=True)
class FleetResult:
    checkers: Checkers
    trace: str
    decisions: int
    last: Decision
    """The highest decision that anybody adopted."""
    peers: dict[str, PeerId]
    virtual_s: float
    """How long it took, on the fleet's own clock."""


class SimFleet:
    def __init__(self, seed: int, shape: FleetShape, nursery: trio.Nursery) -> None:
        self.seed = seed
        self.shape = shape
        self.nursery = nursery
        self.network = MemoryNetwork(seed)
        self.signers = {name: SimSigner(seed, name) for name in shape.names()}
        self.genesis = self._genesis()
        self.revision = self._revision()
        self.lies = dict(shape.liars)
        self.checkers = Checkers(
            seed,
            Setting(self.genesis, self.revision.revision),
            {peer_id(self.signers[n].key): n for n in shape.names() if n not in self.lies},
        )
        self.lives = {
            name: Life(name, self.signers[name], MemoryLedger(), MemoryBlobs())
            for name in shape.names()
        }

    def _genesis(self) -> Genesis:
        authority = SimSigner(self.seed, "authority")
        names = [name for name in self.shape.names() if name.startswith("validator")]
        return Genesis(
            name="simulated",
            nonce=bytes(16),
            authority=(authority.key,),
            threshold=1,
            validators=tuple(Seat(self.signers[name].key, 1) for name in names),
            quorum=self.shape.quorum,
            admission="open",
        )

    def _revision(self) -> SignedRevision:
        payload = encode(scripted.START)
        head = manifest_of(ArtifactKind.HEAD, scripted.SCHEMA.id, payload).id
        revision = Revision(
            network=self.genesis.network,
            study="simulated",
            experiment="walk",
            name="r1",
            workload=WorkloadSpec("scripted", "{}", scripted.SOURCE, "closeness", True),
            schema=scripted.SCHEMA,
            data=DataSpec("indexed", scripted.TRAIN_SAMPLES, scripted.SHARD_SAMPLES),
            schedule=Schedule(
                lease_shards=6,
                max_lease_shards=12,
                max_roster=16,
                deadline_ms=12_000,
                settle_ms=1000,
                check_limit_ms=15_000,
                end_heads=self.shape.windows,
                end_epochs=0,
            ),
            merge=MergeRule("norm_clipped_mean", 2 * MILLION, 0),
            outer=self.shape.outer,
            canary=Canary(samples=32, accept=100_000, reject=500_000),
            head=head,
            seed=sha256(f"{self.seed}/data".encode()).digest(),
        )
        return seal_revision(revision, (SimSigner(self.seed, "authority"),))

    def start(self, name: str) -> None:
        life = self.lives[name]
        if life.scope is None:
            life.lives += 1
            life.scope = trio.CancelScope()
            self.nursery.start_soon(self._live, life, life.scope)

    def crash(self, fault: Crash) -> None:
        life = self.lives[fault.name]
        if life.scope is not None:
            if fault.silent:
                life.power_off()
            life.scope.cancel()
            life.scope = None
            life.blobs.crash(Random(f"{self.seed}/{fault.name}/{life.lives}/disk"))

    async def _live(self, life: Life, scope: trio.CancelScope) -> None:
        with scope:
            node = self._node(life)
            payload = encode(scripted.START)
            if life.name == "seed1":
                await life.blobs.put(ArtifactKind.HEAD, scripted.SCHEMA.id, payload)
            life.lane = lane = self._lane(node, life)
            node.lanes[self.revision.revision.id] = lane
            await node.run()

    def _node(self, life: Life) -> Node:
        role = load_role(ROLES[life.name.rstrip("0123456789")])
        hello = Hello(PROTOCOL_VERSION, self.genesis.network, role.offers, "", "sim")
        transport = self.network.join(life.name, peer_id(life.signer.key), hello)
        life.power_off = transport.power_off
        path = f"{self.seed}/{life.name}/{life.lives}"
        math = scripted.ScriptedMath(
            life.blobs,
            Random(f"{path}/math"),
            partial(self.checkers.on_inspected, life.name),
            partial(self.checkers.on_merged, life.name),
        )
        lie = self.lies.get(life.name)
        doubts = 0.0 if lie else self.shape.doubts
        worker: Worker = scripted.ScriptedWorker(life.blobs, Random(f"{path}/worker"), 0.02, doubts)
        parts = Parts(
            signer=life.signer,
            transport=transport,
            ledger=life.ledger,
            blobs=life.blobs,
            math=math,
            worker=LyingWorker(worker, life.blobs, lie) if lie else worker,
            dice=Random(f"{path}/overlay"),
            now_ms=lambda: EPOCH_MS + round(trio.current_time() * 1000),
        )
        return Node(parts, self.genesis, role, (Seed(SEED_ADDRESS),))

    def _lane(self, node: Node, life: Life) -> WatchedLane:
        setting = self._setting(node)
        lie = self.lies.get(life.name)
        if lie is None:
            lane = WatchedLane(node, setting, self.revision, node.plugin)
        else:
            lane = LyingLane(node, setting, self.revision, node.plugin)
            lane.lie, lane.unsaid = lie, set()
            lane.tongue = tongue_of(lie, lane.sign, Random(f"{self.seed}/{life.name}/lies"))
        lane.checkers, lane.name = self.checkers, life.name
        return lane

    def _setting(self, node: Node) -> Setting:
        """The rules by which this node plays."""
        broken = self.shape.broken
        if broken is Break.QUORUM:
            seen: set[PeerId] = set()

            def lost() -> frozenset[PeerId]:
                linked = {link.peer for link in node.transport.links()}
                seen.update(linked)
                return frozenset(seen - linked)

            return VisibleSetting(self.genesis, self.revision.revision, lost=lost)
        off = frozenset({RULES[broken]}) if broken in RULES else frozenset[Defence]()
        return Setting(self.genesis, self.revision.revision, off)

    def tips(self) -> dict[str, Decision]:
        return {
            name: life.lane.decision for name, life in self.lives.items() if life.lane is not None
        }

    async def run(self) -> bool:
        """True if the revision came to its end on every node in time."""
        for name in self.shape.names():
            self.start(name)
        faults: tuple[Fault, ...] = ()
        if self.shape.faults is not FaultSet.NONE:
            faults = draw_faults(
                self.seed, self.shape.names(), self.shape.faults, until_s=FAULTS_END_S
            )
        if self.shape.faults in (FaultSet.NETWORK, FaultSet.ALL):
            faults += draw_split(self.seed, self.shape.names())
        self.nursery.start_soon(apply_faults, faults, self.network, self.crash, self.start)
        last_s = max((fault.until_s for fault in faults), default=0.0)
        with trio.move_on_after(last_s + GRACE_S + 30.0 * self.shape.windows):
            while not self._done(last_s):
                await trio.sleep(POLL_S)
                if self.shape.broken is not None and self.checkers.violations:
                    return True  # seen: what happens to a broken fleet from here on says nothing
            return True
        return False

    def _done(self, last_s: float) -> bool:
        tips = self.tips()
        if trio.current_time() < last_s or len(tips) < len(self.lives):
            return False
        heads = {tip.id for tip in tips.values()}
        return len(heads) == 1 and all(
            tip.state.progress.heads >= self.shape.windows for tip in tips.values()
        )


def draw_split(seed: int, names: Sequence[str]) -> tuple[Cut, ...]:
    """In most seeds, a partition between validators that outlives their links, so that each side sees only itself."""
    dice = Random(f"{seed}/split")
    validators = [name for name in names if name.startswith("validator")]
    if len(validators) < 2 or dice.random() < 0.3:
        return ()
    left = set(dice.sample(validators, dice.randrange(1, len(validators))))
    left.update(name for name in names if name not in validators and dice.random() < 0.5)
    start_s = dice.uniform(2.0, 20.0)
    until_s = start_s + IDLE_S + dice.uniform(5.0, 25.0)
    return (Cut(start_s, until_s, Partition(frozenset(left), frozenset(names) - left)),)


def run_fleet(seed: int, shape: FleetShape) -> FleetResult:
    """One fleet from genesis to the end of its revision, checked at every step."""
    results: list[FleetResult] = []

    async def main() -> None:
        started_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(seed, shape, nursery)
            finished = await fleet.run()
            fleet.checkers.on_end(fleet.tips(), finished=finished)
            height = max(fleet.checkers.chain)
            results.append(
                FleetResult(
                    fleet.checkers,
                    fleet.network.digest(),
                    height,
                    fleet.checkers.chain[height],
                    {name: peer_id(signer.key) for name, signer in fleet.signers.items()},
                    trio.current_time() - started_s,
                )
            )
            nursery.cancel_scope.cancel()

    run_seeded(seed, main, FAULTS_END_S + GRACE_S + 60.0 * (shape.windows + 2))
    return results[0]
