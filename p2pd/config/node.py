"""Settings of one node, but for the overlay's, which lie with the overlay. Units: as names say."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from p2pd.config.names import check_source, parse_address, parse_seed
from p2pd.core.hours import parse_hours
from p2pd.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSettings:
    role: str
    """What this node does for its network: bootstrap, trainer, reducer, validator or viewer."""
    data_dir: Path
    """Directory of this node alone: its key, ledger and artifacts. Made where it is missing. The
    key in it is the node: two nodes must never share or copy one."""
    name: str = ""
    """Shown to people next to the peer id; letters, digits, dot, dash. Empty: the peer id alone."""

    def __post_init__(self) -> None:
        if not self.role:
            raise ValueError("role must not be empty")
        if self.name and NAME.fullmatch(self.name) is None:
            raise ValueError(
                "name must be at most 64 letters, digits, dots, dashes and underscores, "
                f"got {self.name!r}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSettings:
    level: str = "info"
    """Least that is logged: debug, info, warning or error. info tells what a person acts on."""
    format: str = "text"
    """text for people, json for programs: one object a line."""
    file_bytes: int = 8 * 2**20
    """Most that DIR/log may hold; one older file of this size is kept beside it."""
    repeat_s: float = 60.0
    """What is logged again and again is written ten times in so long, and then counted."""
    stall_s: float = 2.0
    """From so long on, what holds up the event loop is logged with its stack."""

    def __post_init__(self) -> None:
        for name, known in (("level", LOG_LEVELS), ("format", LOG_FORMATS)):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        for name, least in (("file_bytes", 2**16), ("repeat_s", 1.0), ("stall_s", 0.1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} must be at least {least:g}, got {value:g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkSettings:
    genesis: Path
    """The signed genesis of the network, as its founder gave it out; relative to this file."""
    seeds: tuple[str, ...] = ()
    """Where the network is entered: host:port, or PEER@host:port to take nobody else there. Empty:
    wait until others connect."""
    join_s: float = 0.0
    """A node that has met nobody so long after its start ends with exit status 1, for scripts that
    must know. 0: it waits and tries for ever."""

    def __post_init__(self) -> None:
        _refuse_negative(self)
        for seed in self.seeds:
            try:
                parse_seed(seed)
            except UsageError as error:
                raise ValueError(f"seeds: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSettings:
    quota_bytes: int = 20 * 10**9
    """Most that artifacts may take on disk; 0 for no limit. The default holds ten states of a model
    of 500 million parameters. What the chain needs is never removed: when that alone reaches the
    quota, further artifacts are refused."""
    reserve_bytes: int = 500 * 10**6
    """Disk space that is left free for everything else on this machine, the ledger included."""
    keep_every: int = 0
    """Every so many promoted heads one is kept for good, besides the last eight heights'; 0 for none.
    They count towards the quota, which must have room for them."""

    def __post_init__(self) -> None:
        _refuse_negative(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSettings:
    sources: tuple[str, ...] = ()
    """Where files of data sets come from that no peer gives: directories (absolute paths), URLs of
    directories, URLs for fsspec (s3://...), paths or URLs of lists of files (.json)."""
    source_s: float = 30.0
    """How long a source may take for a MiB; then another one is asked."""
    serve: Path | None = None
    """Directory that p2pd data shard wrote, or a copy of it. Its data set is given to all other
    nodes, and read from here."""
    quota_bytes: int = 10 * 10**9
    """Most that fetched files of data sets may take of store.quota_bytes; 0 for all of it. What the
    current lease and the next one need stays; of the rest the least recently used go first."""

    def __post_init__(self) -> None:
        _refuse_negative(self)
        if self.source_s == 0:
            raise ValueError("source_s must be positive, got 0")
        for name in self.sources:
            try:
                check_source(name)
            except UsageError as error:
                raise ValueError(f"sources: {error}") from error


SHARE_LEAST = 0.01
"""Of a trainer's time: with less no lease would be done in time."""
THREADS_MOST = 1024
"""Of a workload: more than any machine has cores for."""
WORKERS_MOST = 1024
STRATEGIES = ("auto", "single", "multi", "ddp")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLimits:
    threads: int = 1
    """CPU threads that the workload may use. 1 leaves room for several nodes on one machine."""
    build_s: float = 180.0
    """How long the workload may take to build; then it counts as hung and is ended. torch
    alone takes seconds to import on a small machine."""
    train_s: float = 600.0
    """The same for one lease. Longer than any window is of no use: the lease is dealt again."""
    evaluate_s: float = 180.0
    """The same for one evaluation."""
    memory_bytes: int = 0
    """Most memory that the workload may take; 0 for no limit."""
    attached: bool = False
    """Of a trainer: a script of yours trains, in its own process, and takes leases by p2pd.attach. As
    long as none does, the trainer rests."""

    def __post_init__(self) -> None:
        _refuse_negative(self)
        for name in ("threads", "build_s", "train_s", "evaluate_s"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be positive, got 0")
        if self.threads > THREADS_MOST:
            raise ValueError(f"threads must be at most {THREADS_MOST}, got {self.threads}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerSettings:
    devices: str | int | tuple[str, ...] = "auto"
    """On what a trainer computes, one worker process for each: "auto" (every GPU; without any, where
    the workload puts its model), names like ["cuda:0", "cuda:1"], or a number of processes on the
    CPU. The first is the main worker's. worker.threads and memory_bytes are for each of them."""
    strategy: str = "auto"
    """How several devices train one model: ddp (each keeps an optimizer), multi (the main worker's
    optimizer alone), single (one device), or auto: the workload's own, else ddp."""
    listen: str = ""
    """host:port at which the main worker waits for workers on other machines, on a network whose
    hosts are trusted; an IPv6 host in brackets, port 0 takes a free one. Empty: there are none."""
    elsewhere: int = 0
    """How many workers come from other machines."""
    share: float = 1.0
    """Of the time in which the devices may be busy: with 0.5 a trainer rests after each step as long as
    the step took. Its leases become shorter by themselves."""
    hours: tuple[str, ...] = ()
    """When it may train, in this machine's local time, like 20:00-08:00 or sat-sun 00:00-24:00. Outside
    of them it gives up its lease and its presence. Empty: always."""

    def __post_init__(self) -> None:
        if not SHARE_LEAST <= self.share <= 1:
            raise ValueError(f"share must be from {SHARE_LEAST:g} to 1, got {self.share:g}")
        for text in self.hours:
            try:
                parse_hours(text)
            except ValueError as error:
                raise ValueError(f"hours: {error}") from error
        self._check_devices()
        self._check_others()

    def _check_devices(self) -> None:
        if isinstance(self.devices, str) and self.devices != "auto":
            raise ValueError(
                f'devices must be "auto", a list, or a number of processes, got {self.devices!r}'
            )
        if isinstance(self.devices, int) and not 1 <= self.devices <= WORKERS_MOST:
            raise ValueError(f"devices must be 1 to {WORKERS_MOST}, got {self.devices}")
        if self.devices == ():
            raise ValueError("devices must not be empty: name one, or say auto")
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"strategy must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}"
            )

    def _check_others(self) -> None:
        if not 0 <= self.elsewhere <= WORKERS_MOST:
            raise ValueError(f"elsewhere must be 0 to {WORKERS_MOST}, got {self.elsewhere}")
        if self.elsewhere and not self.listen:
            raise ValueError("elsewhere needs listen: the address that they come to")
        if self.listen and not self.elsewhere:
            raise ValueError("listen needs elsewhere: how many workers come there")
        if self.listen:
            try:
                parse_address(self.listen)
            except UsageError as error:
                raise ValueError(f"listen: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentSettings:
    record: Path | None = None
    """The signed record of the revision that this node works on; relative to this file. None: a
    node that only lets others find and reach each other."""
    workload_path: Path | None = None
    """Directory that holds the workload's module, where that is not installed. Only the worker
    looks there."""


NODE_TABLES: Mapping[str, type] = {
    "node": NodeSettings,
    "log": LogSettings,
    "network": NetworkSettings,
    "store": StoreSettings,
    "data": DataSettings,
    "worker": WorkerLimits,
    "trainer": TrainerSettings,
    "experiment": ExperimentSettings,
}


def _refuse_negative(
    settings: NetworkSettings | StoreSettings | DataSettings | WorkerLimits,
) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, int | float) and value < 0:
            raise ValueError(f"{field.name} must not be negative, got {value}")
