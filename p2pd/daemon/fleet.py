"""A fleet from one TOML file: started on this machine, watched, ended."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.config.fleet import Fleet, FleetNode, load_fleet
from p2pd.config.names import format_address
from p2pd.daemon.files import read_genesis, read_revision
from p2pd.daemon.processes import (
    LEAVE_S,
    NodeProcess,
    last_line,
    last_words,
    lives,
    start_node,
    status_of,
    stop_nodes,
)
from p2pd.daemon.render import node_toml
from p2pd.errors import P2pError
from p2pd.io.durable import exists, storing
from p2pd.io.lock import holder_of
from p2pd.node.plugins import load_role

START_S = 30.0
"""How long a node may take from its start to its first answer."""
POLL_S = 0.1
LEFT = " p2pd.daemon: left"
"""What a node that was asked to leave says last."""
STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Started:
    name: str
    peer: str
    address: str


Tell = Callable[[str], None]
"""Told a line about each node."""


def up(path: Path, tell: Tell) -> None:
    """Starts every node that does not run yet.

    Raises:
        UsageError: the file, or a file that it names, is wrong.
        P2pError: a node did not start; the message has its last words. Or one runs already, on another revision.
    """
    fleet = load_fleet(path)
    _check(fleet)
    trio.run(_up, fleet, tell)


def _check(fleet: Fleet) -> None:
    """All that can be refused before anything is started."""
    genesis = read_genesis(fleet.settings.genesis)
    for node in fleet.nodes:
        load_role(node.role)
    if fleet.settings.record is None:
        return
    wanted = read_revision(fleet.settings.record, genesis).revision
    for node in fleet.nodes:
        found = status_of(fleet.data_dir(node))
        others = [row["revision"] for row in found["revisions"]] if found else []
        if others and wanted.id.hex() not in others:
            raise P2pError(
                f"{node.name} runs already, on revision {others[0][:10]}; this fleet is for {wanted.name}"
                f" {wanted.id.hex()[:10]}: stop that node first"
            )


async def _up(fleet: Fleet, tell: Tell) -> None:
    seeds = list(fleet.settings.seeds)
    # Seeds first: the others are told where they listen.
    for node in sorted(fleet.nodes, key=lambda node: node.role != "bootstrap"):
        ran = holder_of(fleet.data_dir(node)) is not None
        status = await _bring_up(fleet, node, tuple(seeds))
        where = f"{node.role} on {status['node']['address']}"
        tell(f"{node.name}: {'runs already' if ran else 'started'}, {where}")
        if node.role == "bootstrap":
            seeds.append(f"{status['node']['peer']}@{status['node']['address']}")


async def _bring_up(fleet: Fleet, node: FleetNode, seeds: tuple[str, ...]) -> dict[str, Any]:
    """What the node says of itself; started, unless it runs."""
    data_dir, output = fleet.data_dir(node), _output(fleet, node)
    process = None if holder_of(data_dir) is not None else _start(fleet, node, seeds)
    with trio.move_on_after(START_S):
        while process is None or process.running:
            status = await trio.to_thread.run_sync(status_of, data_dir)
            if status is not None:
                return status
            await trio.sleep(POLL_S)
    if process is None:
        raise P2pError(
            f"{node.name} runs as process {holder_of(data_dir)}, but does not answer: see {data_dir / 'log'}"
        )
    await stop_nodes([process])
    raise P2pError(f"{node.name} did not start: {last_words(output)} (see {output})")


def _output(fleet: Fleet, node: FleetNode) -> Path:
    return fleet.settings.dir / "output" / f"{node.name}.txt"


def _start(fleet: Fleet, node: FleetNode, seeds: tuple[str, ...]) -> NodeProcess:
    settings, data_dir, output = fleet.settings, fleet.data_dir(node), _output(fleet, node)
    config = settings.dir / "configs" / f"{node.name}.toml"
    with storing(settings.dir):
        for path in (data_dir, config, output):
            path.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            node_toml(
                role=node.role,
                name=node.name,
                data_dir=data_dir.absolute(),
                genesis=settings.genesis.absolute(),
                record=settings.record.absolute() if settings.record else None,
                seeds=seeds,
                listen=format_address("127.0.0.1", fleet.port(node)),
                workload_path=settings.workload_path.absolute() if settings.workload_path else None,
                threads=fleet.threads(node),
                data=node.data.absolute() if node.data else None,
            )
        )
        if output.exists():
            output.replace(output.with_suffix(".1.txt"))  # one older one is kept
        return start_node(node.name, config, data_dir, output, tied=False)


def down(path: Path, tell: Tell) -> None:
    """Asks every node of the fleet to leave, and waits until it has.

    Raises:
        UsageError: the file is wrong.
        P2pError: a node did not leave in time.
    """
    fleet = load_fleet(path)
    running: dict[Path, int] = {}
    for node in fleet.nodes:
        pid = holder_of(fleet.data_dir(node))
        if pid is not None:
            running[fleet.data_dir(node)] = pid
            _terminate(node, pid)
    stubborn = trio.run(_wait_for, running)
    if stubborn:
        raise P2pError(
            f"still running after {LEAVE_S:g} s: {', '.join(map(str, stubborn))}: end them with kill -9"
        )
    for node in fleet.nodes:
        pid = running.get(fleet.data_dir(node))
        tell(f"{node.name}: {'did not run' if pid is None else f'stopped process {pid}'}")


def _terminate(node: FleetNode, pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it was about to end
    except PermissionError as error:
        raise P2pError(
            f"{node.name}, process {pid}, belongs to another user: who must stop it"
        ) from error


async def _wait_for(running: dict[Path, int]) -> list[int]:
    """Those that still run when the time is over."""
    left = dict(running)
    with trio.move_on_after(LEAVE_S):
        while left:
            left = {p: pid for p, pid in left.items() if holder_of(p) == pid or lives(pid)}
            await trio.sleep(POLL_S)
    return sorted(left.values())


def status(path: Path) -> list[dict[str, Any]]:
    """One row a node, in the order of the file; what a node that does not run could say is None."""
    fleet = load_fleet(path)
    return [_row(fleet, node, status_of(fleet.data_dir(node))) for node in fleet.nodes]


def _row(fleet: Fleet, node: FleetNode, found: dict[str, Any] | None) -> dict[str, Any]:
    info = found["node"] if found else {}
    revision = found["revisions"][0] if found and found["revisions"] else {}
    return {
        "name": node.name,
        "role": node.role,
        "running": found is not None,
        "peer": info.get("peer"),
        "address": info.get("address"),
        "height": revision.get("height"),
        "head": revision.get("head"),
        "why": None if found else _why_down(fleet, node),
    }


def _why_down(fleet: Fleet, node: FleetNode) -> str:
    """Why a node does not answer: it was stopped, or its own last words where there are any."""
    log = fleet.data_dir(node) / "log"
    pid = holder_of(fleet.data_dir(node))
    if pid is not None:
        return f"process {pid} does not answer: see {log}"
    # Its output also has what ended it before it had a log.
    output = _output(fleet, node)
    said = (last_line(output) or last_line(log)).removeprefix("p2pd: ")
    if said.endswith(LEFT):
        return STOPPED
    return said or ("it printed nothing" if exists(output) else "it has never run here")
