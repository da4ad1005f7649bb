"""A fleet of real nodes on this machine: keys, configurations, processes, what they say. Seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis, Seat
from p2pd.daemon.processes import NodeProcess, last_words, start_node, status_of, stop_nodes
from p2pd.daemon.render import node_toml
from p2pd.errors import P2pError
from p2pd.io.durable import storing, write_durably
from p2pd.io.keys import Ed25519Signer, load_or_create_key
from p2pd.wire.records import seal_genesis

POLL_S = 0.25
DATAGRAM_BYTES = 16_000
"""Loopback carries large datagrams, and each one costs the same."""

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    role: str
    host: str = "127.0.0.1"
    """That it listens on."""
    under: tuple[str, ...] = ()
    """A command that starts another one, for a place of its own: `nsenter --net=FILE`."""
    datagram_bytes: int = DATAGRAM_BYTES
    attached: bool = False
    """A script drives it."""


class LocalFleet:
    """The first member is the seed of all others. Call stop in the end, whatever happens."""

    def __init__(
        self, directory: Path, name: str, members: Sequence[Member], record: Path, limit_s: float
    ) -> None:
        """record: where the revision's record will lie. limit_s: how long the seed may take."""
        self.name = name
        self.members = tuple(members)
        self.nodes: list[NodeProcess] = []
        self.signers: dict[str, Ed25519Signer] = {}
        self._directory = directory
        self._record = record
        self._limit_s = limit_s
        for member in members:
            path = self._data_dir(member.name)
            with storing(path):
                path.mkdir(parents=True, mode=0o700)
            self.signers[member.name] = load_or_create_key(path / "key")

    def found(self, authority: Ed25519Signer, quorum: int) -> Genesis:
        """Writes the genesis of a network whose validators are the fleet's, of equal weight."""
        genesis = Genesis(
            name=self.name,
            nonce=authority.sign(self.name.encode())[:16],
            authority=(authority.key,),
            threshold=1,
            validators=tuple(
                Seat(self.signers[member.name].key, 1)
                for member in self.members
                if member.role == "validator"
            ),
            quorum=quorum,
            admission="open",
        )
        write_durably(self._genesis, encode(seal_genesis(genesis, (authority,))))
        return genesis

    async def start(self) -> None:
        """
        Raises:
            P2pError: a node has ended, or the seed does not come up.
        """
        seeds: tuple[str, ...] = ()
        for member in self.members:
            self.nodes.append(self._start(member, seeds))
            if not seeds:
                seeds = (await self._address_of(self.nodes[0]),)

    async def stop(self) -> None:
        await stop_nodes(self.nodes)

    def output(self, name: str) -> Path:
        """What a node has printed."""
        return self._directory / "output" / f"{name}.txt"

    def check_alive(self) -> None:
        """Raises P2pError, with a node's last words, if one has ended."""
        for node in self.nodes:
            if not node.running:
                output = self.output(node.name)
                raise P2pError(f"{node.name} has ended: {last_words(output)} (see {output})")

    async def ask(self, node: NodeProcess) -> Status | None:
        """None while it does not answer."""
        return await trio.to_thread.run_sync(status_of, node.data_dir)

    async def ask_all(self) -> dict[str, Status]:
        """The status of each node that answers."""
        statuses: dict[str, Status] = {}

        async def ask_one(node: NodeProcess) -> None:
            status = await self.ask(node)
            if status is not None:
                statuses[node.name] = status

        async with trio.open_nursery() as nursery:
            for node in self.nodes:
                nursery.start_soon(ask_one, node)
        return statuses

    @property
    def _genesis(self) -> Path:
        return self._directory / "genesis.cbor"

    def _data_dir(self, name: str) -> Path:
        return self._directory / "nodes" / name

    def _start(self, member: Member, seeds: tuple[str, ...]) -> NodeProcess:
        name, data_dir = member.name, self._data_dir(member.name)
        config = self._directory / "configs" / f"{name}.toml"
        text = node_toml(
            role=member.role,
            name=name,
            data_dir=data_dir,
            genesis=self._genesis,
            record=self._record,
            seeds=seeds,
            listen=f"{member.host}:0",
            datagram_bytes=member.datagram_bytes,
            attached=member.attached,
        )
        with storing(self._directory):
            config.parent.mkdir(exist_ok=True)
            self.output(name).parent.mkdir(exist_ok=True)
            config.write_text(text)
            return start_node(
                name, config, data_dir, self.output(name), tied=True, under=member.under
            )

    async def _address_of(self, seed: NodeProcess) -> str:
        with trio.move_on_after(self._limit_s):
            while True:
                self.check_alive()
                status = await trio.to_thread.run_sync(status_of, seed.data_dir)
                if status is not None and status["node"]["address"]:
                    return f"{status['node']['peer']}@{status['node']['address']}"
                await trio.sleep(POLL_S)
        raise P2pError(f"the seed does not come up; see {self.output(seed.name)}")


def revision_of(status: Status) -> dict[str, Any]:
    """What a node says of its one revision."""
    revision: dict[str, Any] = status["revisions"][0]
    return revision
