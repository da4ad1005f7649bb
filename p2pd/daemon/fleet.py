"""A fleet from one TOML file: started on this machine, watched, ended."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.config.fleet import Fleet, FleetNode, load_fleet
from p2pd.config.names import format_address
from p2pd.daemon.files import read_genesis, read_revision
from p2pd.daemon.processes import ASK_S, LEAVE_S, last_words, start_node, status_of
from p2pd.daemon.render import node_toml
from p2pd.errors import P2pError
from p2pd.io.control import ask
from p2pd.node.plugins import load_role

START_S = 30.0
"""How long a node may take from its start to its first answer."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Started:
    name: str
    peer: str
    address: str


def up(path: Path) -> int:
    """Starts every node that does not run yet. Returns the exit status.

    Raises:
        UsageError: the file, or a file that it names, is wrong.
        P2pError: a node did not start; the message has its last words.
    """
    fleet = load_fleet(path)
    _check(fleet)
    trio.run(_up, fleet)
    return 0


def _check(fleet: Fleet) -> None:
    """All that can be refused before anything is started."""
    genesis = read_genesis(fleet.settings.genesis)
    if fleet.settings.record is not None:
        read_revision(fleet.settings.record, genesis)
    for node in fleet.nodes:
        load_role(node.role)


async def _up(fleet: Fleet) -> None:
    seeds = list(fleet.settings.seeds)
    # Seeds first: the others are told where they listen.
    for node in sorted(fleet.nodes, key=lambda node: node.role != "bootstrap"):
        status = status_of(fleet.data_dir(node))
        if status is None:
            status = await _start(fleet, node, tuple(seeds))
        if node.role == "bootstrap":
            seeds.append(f"{status['node']['peer']}@{status['node']['address']}")


async def _start(fleet: Fleet, node: FleetNode, seeds: tuple[str, ...]) -> dict[str, Any]:
    data_dir = fleet.data_dir(node)
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    config = fleet.settings.dir / "configs" / f"{node.name}.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        node_toml(
            role=node.role,
            name=node.name,
            data_dir=data_dir.absolute(),
            genesis=fleet.settings.genesis.absolute(),
            record=fleet.settings.record.absolute() if fleet.settings.record else None,
            seeds=seeds,
            listen=format_address("127.0.0.1", fleet.port(node)),
            workload_path=fleet.settings.workload_path,
            threads=fleet.threads(node),
        )
    )
    output = fleet.settings.dir / "output" / f"{node.name}.txt"
    output.parent.mkdir(parents=True, exist_ok=True)
    process = start_node(node.name, config, data_dir, output, tied=False)
    with trio.move_on_after(START_S):
        while process.running:
            status = await trio.to_thread.run_sync(status_of, data_dir)
            if status is not None:
                return status
            await trio.sleep(POLL_S)
    raise P2pError(f"{node.name} did not start: {last_words(output)} (see {output})")


def down(path: Path) -> int:
    """Asks every node of the fleet to leave, and waits until it has. Returns the exit status."""
    fleet = load_fleet(path)
    running = {node.name: _pid(fleet.data_dir(node)) for node in fleet.nodes}
    for pid in running.values():
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
    stubborn = trio.run(_wait_for, {n: pid for n, pid in running.items() if pid is not None})
    if stubborn:
        raise P2pError(f"still running after {LEAVE_S:g} s: {', '.join(stubborn)}")
    return 0


def _pid(data_dir: Path) -> int | None:
    try:
        return int(ask(data_dir, {"call": "process"}, ASK_S)["pid"])
    except P2pError:
        return None


async def _wait_for(running: dict[str, int]) -> list[str]:
    left = dict(running)
    with trio.move_on_after(LEAVE_S):
        while left:
            left = {name: pid for name, pid in left.items() if _alive(pid)}
            await trio.sleep(POLL_S)
    return sorted(left)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def status(path: Path) -> list[dict[str, Any]]:
    """One row a node, in the order of the file; a node that does not run has only its name and role."""
    fleet = load_fleet(path)
    rows = []
    for node in fleet.nodes:
        found = status_of(fleet.data_dir(node))
        row: dict[str, Any] = {"name": node.name, "role": node.role, "running": found is not None}
        if found is not None:
            row["peer"] = found["node"]["peer"]
            row["address"] = found["node"]["address"]
            for revision in found["revisions"][:1]:
                row["height"], row["head"] = revision["height"], revision["head"]
        rows.append(row)
    return rows
