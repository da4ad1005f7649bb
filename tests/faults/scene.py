"""A simulated fleet to which a test does things by hand, in virtual seconds, with the checkers watching."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import trio

from p2pd.core.decision import Decision, Outcome
from p2pd.core.derive import genesis_decision
from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId, peer_id
from p2pd.core.messages import Candidate, Choices
from p2pd.core.work import TrainJob, TrainResult
from p2pd.node.node import Node
from p2pd.sim.faults import FaultSet
from p2pd.sim.fleet import SimFleet
from p2pd.sim.lives import Life
from p2pd.sim.run import run_seeded
from p2pd.sim.scripted import ScriptedWorker
from p2pd.sim.shape import FleetShape

LIMIT_S = 5_000.0
POLL_S = 0.25


class SteadyWorker(ScriptedWorker):
    """The same job gives the same update in every life, as a real worker's does."""

    async def train(self, job: TrainJob) -> TrainResult:
        self.dice = Random(repr(job))
        return await ScriptedWorker.train(self, job)


class StagedFleet(SimFleet):
    """Nodes start when the test says so; trainers may have a pace of their own."""

    paces: Mapping[str, float]
    nodes: dict[str, Node]

    def _node(self, life: Life) -> Node:
        node = super()._node(life)
        if life.name in self.paces:
            pace_s = self.paces[life.name]
            worker = SteadyWorker(life.blobs, Random(), train_s=(pace_s, pace_s))
            for lane in node.lanes.values():
                lane.worker = worker
        self.nodes[life.name] = node
        return node


@dataclass(slots=True)
class Scene:
    fleet: StagedFleet
    adopted: dict[int, float] = field(default_factory=dict)
    """When each height was first decided."""

    def start(self, *names: str) -> None:
        for name in names:
            self.fleet.world.start(name)

    def kill(self, *names: str, silent: bool = True) -> None:
        """As a power cut does, or as kill -9 does if the kernel still tells the peers."""
        for name in names:
            self.fleet.world.kill(name, silent=silent)

    def peer(self, name: str) -> PeerId:
        return peer_id(self.fleet.signers[name].key)

    @property
    def chain(self) -> list[Decision]:
        """All decisions so far, from genesis on."""
        chain = self.fleet.checkers.chain
        first = genesis_decision(self.fleet.checkers.setting)
        return [first, *(chain[height] for height in sorted(chain) if height > 0)]

    @property
    def tip(self) -> Decision:
        return self.chain[-1]

    @property
    def agreed(self) -> bool:
        """All nodes that run stand on the newest decision."""
        lives = [life for life in self.fleet.lives.values() if life.scope is not None]
        return all(life.lane is not None and life.lane.decision.id == self.tip.id for life in lives)

    async def until(self, what: str, condition: Callable[[], bool], limit_s: float = 120.0) -> None:
        with trio.move_on_after(limit_s):
            while not condition():  # noqa: ASYNC110 - virtual time, and the fleet tells nobody
                await trio.sleep(POLL_S)
            return
        raise AssertionError(f"not within {limit_s:g} virtual seconds: {what}")

    async def decides(self, more: int, limit_s: float = 120.0) -> None:
        """Waits until so many more heights were decided."""
        height = self.tip.height + more
        await self.until(f"height {height}", lambda: self.tip.height >= height, limit_s)

    async def promotes(self, heads: int, limit_s: float = 120.0) -> None:
        """Waits until so many heads were promoted in all."""
        await self.until(f"{heads} heads", lambda: self.tip.state.progress.heads >= heads, limit_s)


def cohort(decision: Decision) -> tuple[Candidate, ...]:
    """What a decision looked at."""
    return decode(Choices, decision.choices).cohort if decision.choices else ()


def promoted(decisions: list[Decision]) -> list[Decision]:
    """Those that made a new head; the genesis was given, not made."""
    return [d for d in decisions[1:] if d.header.outcome is Outcome.PROMOTED]


def play(
    script: Callable[[Scene], Awaitable[None]],
    shape: FleetShape,
    *,
    seed: int = 0,
    paces: Mapping[str, float] | None = None,
) -> Scene:
    """Runs the script on a fleet without other faults; what the checkers saw fails the test."""
    scenes: list[Scene] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            fleet = StagedFleet(seed, shape, nursery)
            fleet.paces, fleet.nodes = paces or {}, {}
            scene = Scene(fleet)
            scenes.append(scene)
            scene.start("seed1")
            await (
                trio.lowlevel.checkpoint()
            )  # the others know it by the address of the first to join
            await script(scene)
            nursery.cancel_scope.cancel()

    assert run_seeded(seed, main, LIMIT_S)
    assert scenes[0].fleet.checkers.violations == []
    return scenes[0]


def calm(
    *,
    validators: int = 3,
    quorum: int = 2,
    trainers: int = 3,
    reducers: int = 1,
    windows: int = 1000,
) -> FleetShape:
    """A fleet that no faults befall but those of the script."""
    return FleetShape(
        validators=validators,
        quorum=quorum,
        trainers=trainers,
        reducers=reducers,
        windows=windows,
        faults=FaultSet.NONE,
    )
