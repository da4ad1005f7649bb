"""A fleet: several nodes of one network, started together on one machine."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from p2pd.config.loading import load
from p2pd.config.names import PORT_MAX
from p2pd.errors import ProblemsError, UsageError

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetSettings:
    dir: Path
    """Directory of the fleet; each node's data directory is nodes/NAME in it."""
    genesis: Path
    """The signed genesis of the network, relative to this file."""
    record: Path | None = None
    """The signed record of the revision that the fleet works on, relative to this file."""
    workload_path: Path | None = None
    """Directory that holds the workload's module, where that is not installed."""
    seeds: tuple[str, ...] = ()
    """host:port of seeds outside this fleet. Its own bootstrap nodes need not be named."""
    base_port: int = 0
    """UDP port of the first node; each further one takes the next. 0: any free ports."""
    threads: int = 1
    """CPU threads of each worker, unless its node says otherwise."""

    def __post_init__(self) -> None:
        _check_port("base_port", self.base_port)
        if self.threads < 1:
            raise ValueError(f"threads must be positive, got {self.threads}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetNode:
    name: str
    """Unique in the fleet: lowercase letters, digits and dashes."""
    role: str
    """bootstrap, trainer, reducer, validator or viewer."""
    port: int = 0
    """UDP port on 127.0.0.1. 0: as base_port says."""
    data_dir: Path | None = None
    """Left out: nodes/NAME in the directory of the fleet."""
    threads: int | None = None
    """CPU threads of its worker. Left out: as the fleet says."""
    data: Path | None = None
    """Directory that p2pd data shard wrote: this node gives the data set in it to all others."""

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ValueError(
                "name must be up to 32 lowercase letters, digits and dashes, and begin with no "
                f"dash, got {self.name!r}"
            )
        if not self.role:
            raise ValueError("role must not be empty")
        _check_port("port", self.port)
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be positive, got {self.threads}")


@dataclass(frozen=True, slots=True)
class Fleet:
    settings: FleetSettings
    nodes: tuple[FleetNode, ...]

    def port(self, node: FleetNode) -> int:
        """0: any free one."""
        if node.port or not self.settings.base_port:
            return node.port
        return self.settings.base_port + self.nodes.index(node)

    def data_dir(self, node: FleetNode) -> Path:
        return node.data_dir or self.settings.dir / "nodes" / node.name

    def threads(self, node: FleetNode) -> int:
        return node.threads or self.settings.threads


FLEET_TABLES: Mapping[str, object] = {"fleet": FleetSettings, "nodes": tuple[FleetNode, ...]}


def load_fleet(path: Path) -> Fleet:
    """
    Raises:
        UsageError: one line for each thing that is wrong.
    """
    instances = load(path, FLEET_TABLES)
    fleet = Fleet(instances["fleet"], instances["nodes"])
    if not fleet.nodes:
        raise UsageError(f"{path}: nodes: a fleet needs at least one [[nodes]] table")
    columns: tuple[tuple[str, list[object]], ...] = (
        ("name", [node.name for node in fleet.nodes]),
        ("port", [fleet.port(node) for node in fleet.nodes if fleet.port(node)]),
        ("data_dir", [fleet.data_dir(node) for node in fleet.nodes]),
    )
    problems = [
        f"{path}: nodes: two nodes have the {key} {value}: change one"
        for key, values in columns
        for value in dict.fromkeys(values)
        if values.count(value) > 1
    ]
    if problems:
        raise ProblemsError(problems)
    return fleet


def _check_port(key: str, port: int) -> None:
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"{key} must be a port from 0 to {PORT_MAX}, got {port}")
