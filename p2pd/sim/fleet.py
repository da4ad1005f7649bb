"""A whole fleet in one process: the real core, wire, node and roles, on a network and stores in memory."""

from collections import deque
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from random import Random
from typing import Any

import trio

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import PeerId, peer_id
from p2pd.core.revision import (
    Canary,
    DataSpec,
    Revision,
    Schedule,
    SignedRevision,
    WorkloadSpec,
)
from p2pd.core.signed import Signed
from p2pd.core.voting.events import Defence
from p2pd.core.work import MILLION, MergeRule
from p2pd.node.discovery import Seed
from p2pd.node.node import Node, Parts
from p2pd.node.plugins import load_role
from p2pd.ports import RolePlugin, Worker
from p2pd.sim import scripted
from p2pd.sim.breaking import Audience, ledger_of, math_of, setting_for, setting_of
from p2pd.sim.breaks import Break
from p2pd.sim.checkers import Checkers
from p2pd.sim.faults import Cut, Fault, Weather, apply_faults
from p2pd.sim.liars import Lie, LyingWorker
from p2pd.sim.liveness import Pulse
from p2pd.sim.lives import Life, Lives
from p2pd.sim.lying import REMEMBERED, LyingLane
from p2pd.sim.lying_validators import tongue_of
from p2pd.sim.lying_workers import worker_tongue_of
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FAULTS_END_S, FleetShape
from p2pd.sim.signing import SimSigner
from p2pd.sim.store import MemoryLedger
from p2pd.sim.watched import WatchedLane
from p2pd.wire.records import seal_revision

POLL_S = 1.0
POWER_OFF_S = (0.2, 3.0)
LIMIT_S = 100_000.0
"""Of virtual time: a fleet ends, or is found to decide nothing, long before."""
EPOCH_MS = 1_800_000_000_000
SEED_ADDRESS = "10.0.0.1:7000"
"""Of the first node that joins."""


ROLES = {
    "seed": "bootstrap",
    "validator": "validator",
    "reducer": "reducer",
    "trainer": "trainer",
    "viewer": "viewer",
}


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
    pulse: Pulse


class SimFleet:
    def __init__(self, seed: int, shape: FleetShape, nursery: trio.Nursery) -> None:
        self.seed = seed
        self.shape = shape = shape.of_seed(seed)
        self.nursery = nursery
        self.names = [name for name in shape.names() if name not in shape.without]
        self.network = MemoryNetwork(seed)
        self.signers = {name: SimSigner(seed, name) for name in shape.names()}
        self.genesis = self._genesis()
        self.revision = self._revision()
        self.lies = dict(shape.liars)
        self.pasts: dict[str, deque[Signed[Any]]] = {
            name: deque(maxlen=REMEMBERED) for name in self.lies
        }
        plain = Setting(self.genesis, self.revision.revision)
        self.setting = setting_of(plain, 0, shape.broken)
        self.checkers = Checkers(
            seed,
            plain,
            {peer_id(self.signers[n].key): n for n in shape.names() if n not in self.lies},
            trio.current_time,
        )
        drawn = shape.schedule(seed)
        self.faults = [
            fault for n, fault in enumerate(drawn) if shape.only is None or n in shape.only
        ]
        self.world = Lives(seed, self.network, nursery, self._boot, self)
        self.lives = self.world.all
        for name in self.names:
            self.world.add(name, self.signers[name])

    def _genesis(self) -> Genesis:
        authority = SimSigner(self.seed, "authority")
        names = [name for name in self.shape.names() if name.startswith("validator")]
        return Genesis(
            name="simulated",
            nonce=bytes(16),
            authority=(authority.key,),
            threshold=1,
            validators=tuple(
                Seat(self.signers[name].key, self.shape.weight_of(name)) for name in names
            ),
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
                lookahead=self.shape.lookahead,
                reconcile=self.shape.reconcile,
            ),
            merge=MergeRule("norm_clipped_mean", 2 * MILLION, 0),
            outer=self.shape.outer,
            canary=Canary(samples=32, accept=100_000, reject=500_000),
            head=head,
            seed=sha256(f"{self.seed}/data".encode()).digest(),
        )
        return seal_revision(revision, (SimSigner(self.seed, "authority"),))

    # What happens to nodes (Watcher of their lives)

    def failed(self, name: str, why: str) -> None:
        self.checkers.fail("crash", 0, f"{name}: {why}")

    def restored(self, life: Life, *, calm: bool) -> None:
        self.checkers.forget(life.name)
        if not calm:
            self.checkers.excuse(life.name, life.signer.key)

    def doubled(self, life: Life) -> None:
        self.checkers.excuse(life.name, life.signer.key)

    async def _boot(self, life: Life) -> Node:
        if life.role_name == "seed" and not life.blobs.has(self.revision.revision.head):
            payload = encode(scripted.START)
            await life.blobs.put(ArtifactKind.HEAD, scripted.SCHEMA.id, payload)
        return self._node(life)

    def _node(self, life: Life) -> Node:
        role = role_of(ROLES[life.role_name])
        hello = Hello(PROTOCOL_VERSION, self.genesis.network, role.offers, "", "sim")
        transport = self.network.join(life.name, peer_id(life.signer.key), hello)
        life.power_off = transport.power_off
        path = f"{self.seed}/{life.name}/{life.lives}"
        lie = self.lies.get(life.name)
        doubts = 0.0 if lie else self.shape.doubts
        worker: Worker = scripted.ScriptedWorker(life.blobs, Random(f"{path}/worker"), 0.02, doubts)
        told = Audience(
            partial(self.checkers.on_inspected, life.name),
            partial(self.checkers.on_merged, life.name),
        )
        parts = Parts(
            signer=life.signer,
            transport=transport,
            ledger=ledger_of(life.ledger, self.shape.broken),
            blobs=life.blobs,
            math=math_of(life.blobs, Random(f"{path}/math"), told, self.shape.broken),
            worker=LyingWorker(worker, life.blobs, lie) if lie else worker,
            dice=Random(f"{path}/overlay"),
            now_ms=lambda: EPOCH_MS + round((trio.current_time() + life.clock_offset_s) * 1000),
        )
        node = Node(parts, self.genesis, role, (Seed(SEED_ADDRESS),))
        lane = self._lane(node, life)
        node.lanes[self.revision.revision.id] = lane
        life.lanes = [lane]
        return node

    def _lane(self, node: Node, life: Life) -> WatchedLane:
        setting = setting_for(node, self.setting, self.shape.broken)
        lie = self.lies.get(life.name)
        if lie is Lie.TURNCOAT:
            setting = replace(setting, defences_off=setting.defences_off | {Defence.LOCK})
        if lie is None:
            lane = WatchedLane(node, setting, self.revision, node.plugin)
        else:
            lane = LyingLane(node, setting, self.revision, node.plugin)
            lane.lie, lane.unsaid, lane.past = lie, set(), self.pasts[life.name]
            dice = Random(f"{self.seed}/{life.name}/lies")
            tongue = tongue_of(lie, lane.sign, dice) or worker_tongue_of(lie, lane.sign)
            lane.tongue = tongue
        lane.checkers, lane.name = self.checkers, life.name
        lane.credulous = self.shape.broken is Break.SIGNATURES
        lane.voted = partial(
            self._voted, life, Random(f"{self.seed}/{life.name}/{life.lives}/power")
        )
        return lane

    def _voted(self, life: Life, dice: Random) -> None:
        if dice.random() < self.shape.power_cuts and trio.current_time() < FAULTS_END_S:
            self.nursery.start_soon(self._cut_power, life.name, dice.uniform(*POWER_OFF_S))

    async def _cut_power(self, name: str, length_s: float) -> None:
        self.world.kill(name, silent=True)
        await trio.sleep(length_s)
        self.world.start(name)

    async def _begin_term(self, at_s: float) -> None:
        """All nodes take the new term in one transaction each: what the old one decided or signed is abandoned."""
        await trio.sleep_until(at_s)
        self.setting = setting_of(
            Setting(self.genesis, self.revision.revision), 1, self.shape.broken
        )
        self.checkers.begin_term(self.setting)
        for name, life in self.lives.items():
            alive = life.scope is not None
            self.world.kill(name, silent=False)
            life.ledger, life.lanes = MemoryLedger(life.disk), []
            if life.backup is not None:
                life.backup = MemoryLedger(life.disk), life.backup[1]
            if alive:
                self.world.start(name)

    def tips(self) -> dict[str, Decision]:
        return {name: lane.decision for name, life in self.lives.items() for lane in life.lanes}

    async def run(self) -> bool:
        """True if the revision came to its end on every node in time."""
        for name in self.names:
            self.world.start(name)
        faults = [fault for fault in self.faults if self._strikes(fault)]
        self.nursery.start_soon(apply_faults, faults, self.world)
        last_s = max((fault.until_s for fault in faults), default=0.0)
        if self.shape.new_term_s:
            self.nursery.start_soon(self._begin_term, self.shape.new_term_s)
            last_s = max(last_s, self.shape.new_term_s + POLL_S)
        pulse = self.pulse = Pulse(last_s, self.revision.revision.schedule)
        while not self._done(last_s):
            await trio.sleep(POLL_S)
            if self.shape.broken is not None and self.checkers.violations:
                return True  # seen: what happens to a broken fleet from here on says nothing
            if not pulse.beats(max(self.checkers.chain, default=0), trio.current_time()):
                return False
        return True

    def _strikes(self, fault: Fault) -> bool:
        return isinstance(fault, Weather | Cut) or fault.name in self.names

    def _done(self, last_s: float) -> bool:
        tips = self.tips()
        if trio.current_time() < last_s or len(tips) < len(self.names):
            return False
        heads = {tip.id for tip in tips.values()}
        return len(heads) == 1 and all(
            tip.state.progress.heads >= self.shape.windows for tip in tips.values()
        )


@cache
def role_of(name: str) -> RolePlugin:
    """Looked up once per process: to find what is installed takes as long as a window."""
    return load_role(name)


def run_fleet(seed: int, shape: FleetShape) -> FleetResult:
    """One fleet from genesis to the end of its revision, checked at every step."""
    results: list[FleetResult] = []

    async def main() -> None:
        started_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(seed, shape, nursery)
            finished = await fleet.run()
            fleet.checkers.on_end(fleet.tips(), finished=finished, within_s=fleet.pulse.within_s)
            height = max(fleet.checkers.chain)
            results.append(
                FleetResult(
                    fleet.checkers,
                    fleet.network.digest(),
                    height,
                    fleet.checkers.chain[height],
                    {name: peer_id(signer.key) for name, signer in fleet.signers.items()},
                    trio.current_time() - started_s,
                    fleet.pulse,
                )
            )
            nursery.cancel_scope.cancel()

    run_seeded(seed, main, LIMIT_S)
    return results[0]
