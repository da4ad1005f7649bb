"""Real nodes for end-to-end tests: founded, started as processes, asked, and always ended, by id.

Units: seconds. To wait is to ask for a condition until it holds or its time is over.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis, Seat
from p2pd.core.revision import Revision, WorkloadSpec
from p2pd.daemon.processes import NodeProcess, last_words, start_node, status_of
from p2pd.daemon.publish import (
    CanarySettings,
    MergeSettings,
    PublishRequest,
    RevisionSettings,
    ScheduleSettings,
    head_file_of,
    publish,
)
from p2pd.daemon.render import node_toml
from p2pd.io.keys import Ed25519Signer, load_or_create_key
from p2pd.io.ledger import SqliteLedger
from p2pd.node.chronicle import Chronicle
from p2pd.wire.records import seal_genesis, seal_revision

AUTHORITY = Ed25519Signer(bytes(32))
SAMPLES = 1437
"""Training samples of the digits."""
SHARD_SAMPLES = 16
POLL_S = 0.1
CONDITION_S = 90.0
"""Long: importing torch, in many processes, on a machine that does other things too."""

T = TypeVar("T")
Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Built:
    """A revision of the digits; building it takes seconds, signing it for another network none."""

    revision: Revision
    head_file: Path


async def build_digits(directory: Path) -> Built:
    return await build_revision(directory, "p2pd.workloads.digits")


async def build_revision(
    directory: Path, workload: str, *, config: str = "{}", shard_samples: int = SHARD_SAMPLES
) -> Built:
    genesis = _genesis(directory, ("validator1",), 1)
    request = PublishRequest(
        examine=False,
        genesis=genesis,
        signers=(AUTHORITY,),
        out=directory / "digits.revision.cbor",
        revision=RevisionSettings(
            study="tests", experiment="digits", name="r1", workload=workload, config=config
        ),
        schedule=ScheduleSettings(shard_samples=shard_samples),
        merge=MergeSettings(),
        canary=CanarySettings(),
        log=lambda line: None,
    )
    published = await publish(request)
    return Built(published.signed.revision, published.head_file)


@dataclass(frozen=True, slots=True)
class Founded:
    """A network with its revision, as files."""

    directory: Path
    setting: Setting

    @property
    def genesis_file(self) -> Path:
        return self.directory / "genesis.cbor"

    @property
    def record_file(self) -> Path:
        return self.directory / "digits.revision.cbor"

    def data_dir(self, name: str) -> Path:
        return self.directory / "nodes" / name

    def peer(self, name: str) -> str:
        return key_of(self.directory, name).peer.hex()


def key_of(directory: Path, name: str) -> Ed25519Signer:
    data_dir = directory / "nodes" / name
    data_dir.mkdir(parents=True, mode=0o700, exist_ok=True)
    return load_or_create_key(data_dir / "key")


def _genesis(directory: Path, validators: tuple[str, ...], quorum: int) -> Genesis:
    return Genesis(
        name="tests",
        nonce=AUTHORITY.sign(str(directory).encode())[:16],
        authority=(AUTHORITY.key,),
        threshold=1,
        validators=tuple(Seat(key_of(directory, name).key, 1) for name in validators),
        quorum=quorum,
        admission="open",
    )


def found(
    directory: Path,
    built: Built,
    *,
    validators: tuple[str, ...] = ("validator1",),
    quorum: int = 1,
    lease_shards: int = 30,
    deadline_s: float = 60.0,
    check_limit_s: float = 10.0,
    workload: WorkloadSpec | None = None,
) -> Founded:
    genesis = _genesis(directory, validators, quorum)
    schedule = replace(
        built.revision.schedule,
        lease_shards=lease_shards,
        max_lease_shards=lease_shards,
        deadline_ms=round(deadline_s * 1000),
        check_limit_ms=round(check_limit_s * 1000),
        settle_ms=300,
    )
    revision = replace(
        built.revision,
        network=genesis.network,
        schedule=schedule,
        workload=workload or built.revision.workload,
    )
    founded = Founded(directory, Setting(genesis, revision))
    founded.genesis_file.write_bytes(encode(seal_genesis(genesis, (AUTHORITY,))))
    founded.record_file.write_bytes(encode(seal_revision(revision, (AUTHORITY,))))
    head_file_of(founded.record_file).write_bytes(built.head_file.read_bytes())
    return founded


class Bench:
    """Nodes of one network, as processes."""

    def __init__(self, founded: Founded) -> None:
        self.founded = founded
        self.nodes: dict[str, NodeProcess] = {}
        self.seeds: tuple[str, ...] = ()
        self.listen = "127.0.0.1:0"

    def configure(
        self,
        name: str,
        role: str,
        *,
        seeds: tuple[str, ...] | None = None,
    ) -> Path:
        founded = self.founded
        config = founded.directory / f"{name}.toml"
        config.write_text(
            node_toml(
                role=role,
                name=name,
                data_dir=founded.data_dir(name),
                genesis=founded.genesis_file,
                record=founded.record_file,
                seeds=self.seeds if seeds is None else seeds,
                listen=self.listen,
                datagram_bytes=16_000,
            )
        )
        return config

    def start(
        self,
        name: str,
        role: str,
        *,
        seeds: tuple[str, ...] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> NodeProcess:
        """Starts a node, or starts it again. It dies with this process at the latest."""
        config = self.configure(name, role, seeds=seeds)
        with pytest.MonkeyPatch.context() as patch:
            for key, value in (environment or {}).items():
                patch.setenv(key, value)
            node = start_node(
                name, config, self.founded.data_dir(name), self.output(name), tied=True
            )
        self.nodes[name] = node
        return node

    async def start_seed(self, name: str = "seed", role: str = "bootstrap") -> None:
        """The others are started with its address."""
        self.start(name, role)
        node = (await self.answers(name))["node"]
        self.seeds = (f"{node['peer']}@{node['address']}",)

    def output(self, name: str) -> Path:
        return self.founded.directory / f"{name}.txt"

    def said(self, name: str) -> str:
        """All that a node has printed so far."""
        path = self.output(name)
        return path.read_text() if path.exists() else ""

    async def status(self, name: str) -> Status | None:
        return await trio.to_thread.run_sync(status_of, self.founded.data_dir(name))

    async def answers(self, name: str) -> Status:
        """The status of a node as soon as it gives one."""

        async def check() -> Status | None:
            assert self.nodes[name].running, f"{name}: {last_words(self.output(name))}"
            return await self.status(name)

        return await until(f"{name} answers", check)

    async def revision(self, name: str) -> Status:
        revision: Status = (await self.answers(name))["revisions"][0]
        return revision

    async def reaches(self, names: tuple[str, ...], height: int) -> None:
        """Waits until each of these nodes has this decision."""
        for name in names:

            async def there(name: str = name) -> bool:
                return bool((await self.revision(name))["height"] >= height)

            await until(f"{name} is at height {height}", there)

    async def promotes(self, name: str, heads: int) -> None:
        """Waits until so many heads were promoted."""

        async def there() -> bool:
            return bool((await self.revision(name))["heads"] >= heads)

        await until(f"{name} sees {heads} heads", there)

    def kill(self, name: str) -> None:
        process = self.nodes[name].process
        process.kill()
        process.wait()

    async def ended(self, name: str, limit_s: float = CONDITION_S) -> int:
        """The exit status of a node once it has ended by itself."""
        process = self.nodes[name].process

        async def code() -> tuple[int] | None:
            await trio.lowlevel.checkpoint()
            found = process.poll()
            return None if found is None else (found,)

        return (await until(f"{name} has ended", code, limit_s))[0]

    def close(self) -> None:
        for node in self.nodes.values():
            if node.running:
                with suppress(ProcessLookupError):
                    os.killpg(node.process.pid, signal.SIGKILL)
            node.process.wait()


@asynccontextmanager
async def open_bench(founded: Founded) -> AsyncIterator[Bench]:
    bench = Bench(founded)
    try:
        yield bench
    finally:
        bench.close()


async def until(
    what: str,
    condition: Callable[[], Awaitable[T | None]],
    limit_s: float = CONDITION_S,
    poll_s: float = POLL_S,
) -> T:
    """What condition returns as soon as it is true."""
    with trio.move_on_after(limit_s):
        while True:
            found = await condition()
            if found:
                return found
            await trio.sleep(poll_s)
    raise AssertionError(f"not within {limit_s:g} s: {what}")


def decisions(founded: Founded, name: str) -> list[Decision]:
    """All that the ledger of a node that has ended holds, from genesis on."""
    found: list[Decision] = []
    with SqliteLedger(founded.data_dir(name) / "ledger.sqlite") as ledger:
        chronicle = Chronicle(ledger, founded.setting)
        while (record := chronicle.record(len(found))) is not None:
            found.append(record.decision)
    return found


def lease_of(revision: Status, peer: str) -> Status | None:
    return next((lease for lease in revision["leases"] if lease["peer"] == peer), None)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def log_bytes(founded: Founded, name: str) -> int:
    """What a node has logged, in all its files."""
    return sum(file.stat().st_size for file in founded.data_dir(name).glob("log*"))
