"""A whole fleet in one process: the real core, wire, node and roles, on a network and stores in memory."""

from collections import deque
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random
from typing import Any

import trio

from p2pd.core.artifact import ArtifactKind
from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import ObjectId, PeerId, peer_id
from p2pd.core.revision import SignedRevision
from p2pd.core.shards import SHARD_FORMAT
from p2pd.core.signed import Signed
from p2pd.core.voting.events import Defence
from p2pd.node.data_files import OFFER
from p2pd.node.discovery import Seed
from p2pd.node.node import Node, Parts
from p2pd.node.plugins import load_role
from p2pd.ports import RolePlugin
from p2pd.sim.authority import Authority, extensions
from p2pd.sim.breaking import Audience, ledger_of, math_of, setting_for, setting_of
from p2pd.sim.breaks import Break
from p2pd.sim.chains import Chain
from p2pd.sim.checkers import Checkers
from p2pd.sim.clock import true_now_s
from p2pd.sim.drawing import draw_quartz
from p2pd.sim.faults import Cut, Fault, Weather, apply_faults
from p2pd.sim.liars import Lie, LyingWorker
from p2pd.sim.lives import Life, Lives
from p2pd.sim.lying import REMEMBERED, LyingLane, MuteLog
from p2pd.sim.lying_validators import tongue_of
from p2pd.sim.lying_workers import worker_tongue_of
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.run import run_seeded
from p2pd.sim.shape import FAULTS_END_S, FleetShape, RunEnds
from p2pd.sim.sharded import ShardedSubject
from p2pd.sim.signing import SimSigner
from p2pd.sim.store import MemoryLedger
from p2pd.sim.subject import SCRIPTED, Subject
from p2pd.sim.traffic import Traffic
from p2pd.sim.watched import WatchedLane

POLL_S = 1.0
POWER_OFF_S = (0.2, 3.0)
LIMIT_S = 100_000.0
"""Of virtual time: a fleet ends, or is found to decide nothing, long before."""
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
    """Of the first revision, with what those of all found."""
    others: tuple[Checkers, ...]
    """Of further revisions."""
    trace: str
    decisions: int
    """Of all revisions."""
    last: Decision
    """The highest decision of the first revision that anybody adopted."""
    peers: dict[str, PeerId]
    virtual_s: float
    """How long it took."""
    within_s: float
    """After the last fault, and after each decision, the next must come within so many virtual seconds."""
    longest_s: float
    """That any revision took."""
    traffic: Traffic


class SimFleet:
    def __init__(
        self, seed: int, shape: FleetShape, nursery: trio.Nursery, subject: Subject = SCRIPTED
    ) -> None:
        self.seed = seed
        self.subject = subject
        self.shape = shape = shape.of_seed(seed)
        self.nursery = nursery
        self.names = [name for name in shape.names() if name not in shape.without]
        self.network = MemoryNetwork(seed)
        self.signers = {name: SimSigner(seed, name) for name in shape.names()}
        self.genesis = self._genesis()
        self.lies = dict(shape.liars)
        self.said: dict[str, set[ObjectId]] = {name: set() for name in self.lies}
        self.pasts: dict[str, deque[Signed[Any]]] = {
            name: deque(maxlen=REMEMBERED) for name in self.lies
        }
        self.chains = self._chains()
        drawn = shape.schedule(seed)
        self.faults = [
            fault for n, fault in enumerate(drawn) if shape.only is None or n in shape.only
        ]
        self.world = Lives(seed, self.network, nursery, self._boot, self)
        self.lives = self.world.all
        for name in self.names:
            quartz = draw_quartz(seed, name, shape.faults)
            self.world.add(name, self.signers[name], quartz, subject.quota_bytes)

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

    def _chains(self) -> list[Chain]:
        shape, honest = self.shape, [name for name in self.shape.names() if name not in self.lies]
        names = {peer_id(self.signers[name].key): name for name in honest}
        chains: list[Chain] = []
        for number in range(shape.revisions):
            signed = self.subject.revision(self.seed, shape, self.genesis, number)
            plain = Setting(self.genesis, signed.revision)
            label = f"{signed.revision.name}: " if number else ""
            checkers = Checkers(self.seed, plain, names, true_now_s, label=label)
            if chains:
                checkers.watch_with(chains[0].checkers)
            served = tuple(name for name in self.names if number in shape.served_by(name))
            setting = setting_of(plain, 0, shape.broken)
            spoilt = any(self.lies.get(name) is Lie.REPLAY for name in served)
            heads = shape.windows_of(number)
            chains.append(Chain(signed, setting, checkers, served, heads, spoilt))
        return chains

    @property
    def checkers(self) -> Checkers:
        """Of the first revision; what they find is in one list with what those of others find."""
        return self.chains[0].checkers

    @property
    def revision(self) -> SignedRevision:
        return self.chains[0].signed

    # What happens to nodes (Watcher of their lives)

    def failed(self, name: str, why: str) -> None:
        self.checkers.fail("crash", 0, f"{name}: {why}")

    def restored(self, life: Life, *, calm: bool) -> None:
        for chain in self.chains:
            chain.checkers.forget(life.name)
        if not calm:
            self.doubled(life)

    def doubled(self, life: Life) -> None:
        for chain in self.chains:
            chain.checkers.excuse(life.name, life.signer.key)

    async def _boot(self, life: Life) -> Node:
        revision = self.revision.revision
        if life.role_name == "seed" and not life.blobs.has(revision.head):
            await life.blobs.put(ArtifactKind.HEAD, revision.schema.id, self.subject.head)
            for kind, data in self.subject.data:
                await life.blobs.put(kind, SHARD_FORMAT, data)
        return self._node(life)

    def _node(self, life: Life) -> Node:
        role = role_of(ROLES[life.role_name])
        has_data = life.role_name == "seed" and len(self.subject.data) > 0
        offers = (*role.offers, OFFER) if has_data else role.offers
        hello = Hello(PROTOCOL_VERSION, self.genesis.network, offers, "", "sim")
        transport = self.network.join(life.name, peer_id(life.signer.key), hello)
        life.power_off = transport.power_off
        path = f"{self.seed}/{life.name}/{life.lives}"
        lie = self.lies.get(life.name)
        doubts = 0.0 if lie else self.shape.doubts
        worker = self.subject.worker(life, Random(f"{path}/worker"), doubts)
        math = partial(self.subject.math, life, Random(f"{path}/math"))
        told = Audience(
            partial(self.checkers.on_inspected, life.name),
            partial(self.checkers.on_merged, life.name),
        )
        parts = Parts(
            signer=life.signer,
            transport=transport,
            ledger=ledger_of(life.ledger, self.shape.broken),
            blobs=life.blobs,
            math=math_of(math, told, self.shape.broken),
            worker=LyingWorker(worker, life.blobs, lie) if lie else worker,
            dice=Random(f"{path}/overlay"),
            now_ms=life.wall_ms,
            has_data=has_data,
        )
        node = Node(parts, self.genesis, role, (Seed(SEED_ADDRESS),))
        chains = [chain for chain in self.chains if chain.is_served_by(life.name)]
        if lie is Lie.SUPPRESS:
            mute = MuteLog(self.genesis, node.ledger, transport, node.health)
            mute.held, mute.offended = node.governance.held, node.offended
            node.governance = mute
        life.lanes = [self._lane(node, life, chain) for chain in chains]
        node.lanes = {lane.setting.revision.id: lane for lane in life.lanes}
        return node

    def _lane(self, node: Node, life: Life, chain: Chain) -> WatchedLane:
        setting = setting_for(node, chain.setting, self.shape.broken)
        lie = self.lies.get(life.name)
        if lie is Lie.TURNCOAT:
            setting = replace(setting, defences_off=setting.defences_off | {Defence.LOCK})
        if lie is None:
            lane = WatchedLane(node, setting, chain.signed, node.plugin)
        else:
            lane = LyingLane(node, setting, chain.signed, node.plugin)
            lane.lie, lane.past, lane.said = lie, self.pasts[life.name], self.said[life.name]
            dice = Random(f"{self.seed}/{life.name}/lies")
            tongue = tongue_of(lie, lane.sign, dice) or worker_tongue_of(lie, lane.sign)
            lane.tongue = tongue
        lane.checkers, lane.name, lane.traffic = chain.checkers, life.name, self.network.traffic
        lane.credulous = self.shape.broken is Break.SIGNATURES
        lane.voted = partial(
            self._voted, life, Random(f"{self.seed}/{life.name}/{life.lives}/power")
        )
        return lane

    def _voted(self, life: Life, dice: Random) -> None:
        if dice.random() < self.shape.power_cuts and true_now_s() < FAULTS_END_S:
            self.nursery.start_soon(self._cut_power, life.name, dice.uniform(*POWER_OFF_S))

    async def _cut_power(self, name: str, length_s: float) -> None:
        self.world.kill(name, silent=True)
        await trio.sleep(length_s)
        self.world.start(name)

    async def _begin_term(self, at_s: float) -> None:
        """All nodes take the new term in one transaction each: what the old one decided or signed is abandoned."""
        await trio.sleep_until(at_s)
        for chain in self.chains:
            chain.begin_term(1, self.shape)
        for name, life in self.lives.items():
            alive = life.scope is not None
            self.world.kill(name, silent=False)
            life.ledger, life.lanes = MemoryLedger(life.disk), []
            if life.backup is not None:
                life.backup = MemoryLedger(life.disk), life.backup[1]
            if alive:
                self.world.start(name)

    async def run(self) -> bool:
        """True if each revision came to its end in time on every node that serves it."""
        for name in self.names:
            self.world.start(name)
        faults = [fault for fault in self.faults if self._strikes(fault)]
        self.nursery.start_soon(apply_faults, faults, self.world)
        last_s = max((fault.until_s for fault in faults), default=0.0)
        if self.shape.ends is RunEnds.EXTENDED:
            self._extend()
        if self.shape.new_term_s:
            self.nursery.start_soon(self._begin_term, self.shape.new_term_s)
            last_s = max(last_s, self.shape.new_term_s + POLL_S)
        for chain in self.chains:
            chain.await_after(last_s)
        while not all(chain.over for chain in self.chains):
            await trio.sleep(POLL_S)
            if self.shape.broken is not None and self.checkers.violations:
                return True  # seen: what happens to a broken fleet from here on says nothing
            alive = [chain.keeps_going(self.lives, true_now_s()) for chain in self.chains]
            if not all(alive):
                return False
        return True

    def _extend(self) -> None:
        """The authority has each revision go on to all its windows, through whatever nodes it reaches."""
        ends = [(chain.signed.revision.id, chain.heads) for chain in self.chains]
        log = extensions(self.seed, self.genesis, ends)
        authority = Authority(self.seed, self.network, self.genesis, log)

        def nodes() -> list[str]:
            lives = (self.lives[name].node for name in self.names if name not in self.lies)
            return [node.transport.address for node in lives if node is not None]

        def taken() -> bool:
            return all(chain.took(len(log)) for chain in self.chains)

        self.nursery.start_soon(authority.run, nodes, taken)

    def end(self) -> None:
        for chain in self.chains:
            chain.end(self.lives)

    def _strikes(self, fault: Fault) -> bool:
        return isinstance(fault, Weather | Cut) or fault.name in self.names


@cache
def role_of(name: str) -> RolePlugin:
    """Looked up once per process: to find what is installed takes as long as a window."""
    return load_role(name)


def run_fleet(seed: int, shape: FleetShape, subject: Subject | None = None) -> FleetResult:
    """One fleet from genesis to the end of its revisions, checked at every step. By custom its work is scripted."""
    results: list[FleetResult] = []
    if subject is None:
        subject = ShardedSubject() if shape.sharded else SCRIPTED

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = SimFleet(seed, shape, nursery, subject)
            await fleet.run()
            fleet.end()
            results.append(_result(fleet))
            nursery.cancel_scope.cancel()

    run_seeded(seed, main, LIMIT_S)
    return results[0]


def _result(fleet: SimFleet) -> FleetResult:
    chains = [chain.checkers for chain in fleet.chains]
    height = max(chains[0].chain)
    return FleetResult(
        checkers=chains[0],
        others=tuple(chains[1:]),
        trace=fleet.network.digest(),
        decisions=sum(max(one.chain) for one in chains),
        last=chains[0].chain[height],
        peers={name: peer_id(signer.key) for name, signer in fleet.signers.items()},
        virtual_s=true_now_s(),
        within_s=fleet.chains[0].pulse.within_s,
        traffic=fleet.network.traffic,
        longest_s=max(chain.pulse.longest_s for chain in fleet.chains),
    )
