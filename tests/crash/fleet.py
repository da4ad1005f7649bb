"""A fleet of real daemons that dies and comes back, and what each start came to. Seconds."""

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from p2pd.core.derive import Setting
from p2pd.core.hello import PROTOCOL_VERSION, Hello
from p2pd.core.ids import NetworkId, PeerId
from p2pd.core.revision import Canary, DataSpec, Revision, Schedule, WorkloadSpec
from p2pd.core.work import MILLION, MergeRule, OuterRule
from p2pd.daemon.processes import NodeProcess, last_words, start_node, status_of
from p2pd.daemon.render import node_toml
from p2pd.errors import P2pError, RemoteError, UnreachableError
from p2pd.io.ledger import SqliteLedger
from p2pd.io.overlay import Identity, OverlaySettings, QuicTransport
from p2pd.node.chronicle import HEIGHT_BYTES
from p2pd.ports import Table
from tests.crash.standin import SAMPLES, SCHEMA, SHARD_SAMPLES, SOURCE, write_head
from tests.crash.witness import Witness
from tests.end_to_end.fleet_bench import Built, Founded, Status

POLL_S = 0.05
START_LIMIT_S = 60.0
DOWN_MOST_S = 0.5
"""A node that died comes back after so long at the most."""
MEMBERS = {
    "seed": "bootstrap",
    "validator1": "validator",
    "validator2": "validator",
    "validator3": "validator",
    "reducer": "reducer",
    "trainer1": "trainer",
    "trainer2": "trainer",
    "trainer3": "trainer",
    "viewer": "viewer",
}
VALIDATORS = tuple(name for name, role in MEMBERS.items() if role == "validator")


def built_standin(directory: Path) -> Built:
    """The revision of the stand-in, to be moved to the network that is founded."""
    directory.mkdir(parents=True, exist_ok=True)
    head_file = directory / "standin.head.safetensors"
    head = write_head(head_file)
    revision = Revision(
        network=NetworkId(bytes(32)),
        study="tests",
        experiment="crashes",
        name="r1",
        workload=WorkloadSpec("tests.crash.standin", "{}", SOURCE, "accuracy", True),
        schema=SCHEMA,
        data=DataSpec("indexed", SAMPLES, SHARD_SAMPLES),
        schedule=Schedule(30, 30, 8, 4000, 300, 2000, 0, 0),
        merge=MergeRule("norm_clipped_mean", 2 * MILLION, 0),
        outer=OuterRule("mean", MILLION, 0),
        canary=Canary(16, 20_000, 100_000),
        head=head.id,
        seed=bytes(32),
    )
    return Built(revision, head_file)


@dataclass
class Figures:
    instants: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    """By role."""
    all_at_once: int = 0
    starts: int = 0
    """Of nodes that had died; some die again before they answer."""
    answered: int = 0
    start_s: list[float] = field(default_factory=list)
    """From the start to the first answer."""
    ledgers: int = 0
    """Read as their nodes left them."""


class Fleet:
    def __init__(self, founded: Founded, dice: Random, nursery: trio.Nursery) -> None:
        self.founded = founded
        self.figures = Figures()
        self.violations: list[str] = []
        self.witness = Witness(founded.setting)
        self.nodes: dict[str, NodeProcess] = {}
        self.ready: set[str] = set()
        self.heads: dict[int, str] = {0: founded.setting.revision.head.hex()}
        """The head of each height that anybody has shown."""
        self._dice = dice
        self._nursery = nursery
        self._durable: dict[str, int] = {}
        """The height that a node had when it died."""
        self._listen = dict.fromkeys(MEMBERS, "127.0.0.1:0")
        self._seeds: tuple[str, ...] = ()
        self._transport = witness_transport(founded.setting)

    async def start(self) -> None:
        await self._nursery.start(self._transport.run, self.witness)
        for name in MEMBERS:
            self._launch(name)
            if name == "seed":
                await self._attend(name)
                self._seeds = (f"{self.founded.peer(name)}@{self._listen[name]}",)
        async with trio.open_nursery() as nursery:
            for name in MEMBERS:
                nursery.start_soon(self._attend, name)

    def kill(self, names: list[str]) -> None:
        """All of them at one instant; each comes back after a while of its own."""
        for name in names:
            self.nodes[name].process.kill()
        for name in names:
            self.nodes[name].process.wait()
            self.ready.discard(name)
            self.figures.kills[MEMBERS[name]] += 1
        for name in names:
            self._examine(name)
            self._nursery.start_soon(self._revive, name, self._dice.uniform(0, DOWN_MOST_S))

    def running(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.running]

    async def revision(self, name: str) -> Status | None:
        status = await trio.to_thread.run_sync(status_of, self.founded.data_dir(name))
        return None if status is None else status["revisions"][0]

    def _launch(self, name: str) -> None:
        founded = self.founded
        config = founded.directory / f"{name}.toml"
        config.write_text(
            node_toml(
                role=MEMBERS[name],
                name=name,
                data_dir=founded.data_dir(name),
                genesis=founded.genesis_file,
                record=founded.record_file,
                seeds=self._seeds,
                listen=self._listen[name],
                datagram_bytes=16_000,
            )
        )
        self.nodes[name] = start_node(
            name, config, founded.data_dir(name), self._output(name), tied=True
        )

    def _output(self, name: str) -> Path:
        return self.founded.directory / f"{name}.txt"

    async def _revive(self, name: str, after_s: float) -> None:
        await trio.sleep(after_s)
        self._launch(name)
        self.figures.starts += 1
        await self._attend(name)

    async def _attend(self, name: str) -> None:
        """Until a start answers, or is killed again; whatever else it comes to is a violation."""
        node, started_s = self.nodes[name], trio.current_time()
        while trio.current_time() - started_s < START_LIMIT_S:
            status = await trio.to_thread.run_sync(status_of, node.data_dir)
            code = node.process.poll()
            if code is not None:
                if code != -9:
                    self._complain(f"{name} ended with {code}: {last_words(self._output(name))}")
                return
            if status is not None and name == status["node"]["name"]:
                self.figures.answered += 1
                self.figures.start_s.append(trio.current_time() - started_s)
                self._inspect(name, status)
                await self._listen_to(name, status)
                return
            await trio.sleep(POLL_S)
        self._complain(f"{name} did not answer within {START_LIMIT_S:g} s")

    def _inspect(self, name: str, status: Status) -> None:
        revision = status["revisions"][0]
        height, head = revision["height"], revision["head"]
        if height < self._durable.get(name, 0):
            self._complain(f"{name} fell from height {self._durable[name]} to {height}")
        if self.heads.setdefault(height, head) != head:
            self._complain(f"{name} has another head at height {height}")
        if status["node"]["peer"] != self.founded.peer(name):
            self._complain(f"{name} is another peer")
        self._listen[name] = status["node"]["address"]
        self.ready.add(name)

    async def _listen_to(self, name: str, status: Status) -> None:
        """Links the witness; where the node dies meanwhile there is nothing to hear."""
        if MEMBERS[name] not in ("validator", "bootstrap"):
            return
        try:
            await self._transport.connect(
                status["node"]["address"], PeerId(bytes.fromhex(status["node"]["peer"]))
            )
        except (UnreachableError, RemoteError):
            return

    def _examine(self, name: str) -> None:
        """Reads the ledger as the kill left it, from a copy: nothing is repaired for the node."""
        data_dir = self.founded.data_dir(name)
        if not (data_dir / "ledger.sqlite").exists():
            return
        copy = self.founded.directory / "examined"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for path in data_dir.glob("ledger.*"):
            shutil.copy(path, copy / path.name)
        try:
            with SqliteLedger(copy / "ledger.sqlite") as ledger:
                self.witness.read(ledger)
                last = ledger.last(Table.DECISIONS, self.founded.setting.revision.id)
                if last is not None:
                    height = int.from_bytes(last[0][-HEIGHT_BYTES:])
                    if height < self._durable.get(name, 0):
                        self._complain(f"{name} lost heights up to {self._durable[name]}")
                    self._durable[name] = height
        except P2pError as error:
            self._complain(f"{name} left a ledger that cannot be read: {error}")
        self.figures.ledgers += 1

    def _complain(self, what: str) -> None:
        self.violations.append(what)


def witness_transport(setting: Setting) -> QuicTransport:
    def hello(address: str) -> Hello:
        # What concerns an open window is told to seeds, among others.
        return Hello(PROTOCOL_VERSION, setting.genesis.network, ("bootstrap",), address, "witness")

    settings = OverlaySettings(datagram_bytes=16_000)
    return QuicTransport(settings, Identity(bytes(range(32))), hello)
