"""Real nodes and lanes on a network in memory, with roles that only listen."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio

from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.validator.events import Adopted, ObjectSeen
from p2pd.core.voting.exchange import Inventory
from p2pd.io.keys import Ed25519Signer
from p2pd.node.fork_watch import Watch
from p2pd.node.lane import Lane
from p2pd.node.node import Node, Parts
from p2pd.ports import Role, RoleView, Services
from p2pd.sim.links import LinkFaults
from p2pd.sim.network import MemoryNetwork
from p2pd.sim.run import run_seeded
from p2pd.sim.scripted import ScriptedMath, ScriptedWorker
from p2pd.sim.store import MemoryBlobs, MemoryLedger
from p2pd.wire.records import seal_revision
from tests.core.builders import AUTHORITY, SETTING

REVISION = seal_revision(SETTING.revision, (AUTHORITY,))


@dataclass
class Listener:
    """Port Role: writes down what it is told."""

    events: list[Any] = field(default_factory=list)
    choices: dict[DecisionId, bytes] = field(default_factory=dict)
    shows: Inventory | None = None
    """None: it does not vote."""
    votes: tuple[Signed[Any], ...] = ()
    """What it says that another lacks."""

    def start(self, now_s: float) -> list[object]:
        return []

    def handle(self, event: object, now_s: float) -> list[object]:
        self.events.append(event)
        return []

    def tick(self, now_s: float) -> list[object]:
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def is_job(self, effect: object) -> bool:
        return False

    def leave(self) -> tuple[()]:
        return ()

    async def carry_out(self, effect: object) -> None: ...

    def choices_of(self, value: DecisionId) -> bytes | None:
        return self.choices.get(value)

    def holdings(self) -> Inventory | None:
        return self.shows

    def lacking(self, theirs: Inventory) -> tuple[Signed[Any], ...]:
        return self.votes

    def view(self) -> RoleView:
        return RoleView("listening", None)

    @property
    def seen(self) -> list[Signed[Any]]:
        return [event.signed for event in self.events if isinstance(event, ObjectSeen)]

    @property
    def adopted(self) -> list[Decision]:
        return [event.decision for event in self.events if isinstance(event, Adopted)]


@dataclass
class Plugin:
    """Port RolePlugin."""

    offers: tuple[str, ...]
    role: Listener = field(default_factory=Listener)
    name: str = "listener"
    needs_worker: bool = False
    needs_math: bool = False

    def at(self, services: Services) -> Role:
        return self.role


@dataclass
class Running:
    node: Node
    lane: Lane
    role: Listener
    ledger: MemoryLedger
    blobs: MemoryBlobs
    life: trio.CancelScope


@dataclass
class Bench:
    network: MemoryNetwork
    nursery: trio.Nursery
    setting: Setting = SETTING

    async def start(
        self,
        name: str,
        signer: Ed25519Signer,
        *offers: str,
        ledger: MemoryLedger | None = None,
        blobs: MemoryBlobs | None = None,
        keep_every: int = 0,
        watch: Watch | None = None,
    ) -> Running:
        ledger, blobs = ledger or MemoryLedger(), blobs or MemoryBlobs()
        plugin = Plugin(offers or ("validator",))
        network = self.setting.genesis.network
        hello = Hello(PROTOCOL_VERSION, network, plugin.offers, "", "test")
        parts = Parts(
            signer=signer,
            transport=self.network.join(name, signer.peer, hello),
            ledger=ledger,
            blobs=blobs,
            math=ScriptedMath(blobs, Random(0)),
            worker=ScriptedWorker(blobs, Random(0)),
            dice=Random(name),
            now_ms=lambda: round(trio.current_time() * 1000),
            keep_every=keep_every,
        )
        node = Node(parts, self.setting.genesis, plugin, ())
        lane = node.add(REVISION)
        if watch is not None:
            lane._catch_up._watch = watch
        running = Running(node, lane, plugin.role, ledger, blobs, trio.CancelScope())
        self.nursery.start_soon(self._live, running)
        await trio.sleep(0.1)
        return running

    async def _live(self, running: Running) -> None:
        with running.life:
            await running.node.run()

    async def link(self, one: Running, *others: Running) -> None:
        for other in others:
            await one.node.transport.connect(other.node.transport.address, None)


def on_bench(main: Callable[[Bench], Awaitable[None]], faults: LinkFaults | None = None) -> None:
    async def bounded() -> None:
        async with trio.open_nursery() as nursery:
            await main(Bench(MemoryNetwork(0, faults), nursery))
            nursery.cancel_scope.cancel()

    assert run_seeded(0, bounded, 300.0)
