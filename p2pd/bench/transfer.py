"""Artifacts from node to node over real sockets, from one disk to another, verified. MB are 10**6 bytes.

Every node is a process with the daemon's own parts (bench/transfer_node.py). The floors are aioquic's own
asyncio server, with datagrams of the same size, and Python's TLS over TCP: both from memory to memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from p2pd.bench.children import Child
from p2pd.bench.places import LIMIT_S, MB, NODE, START_S, Place, node_of, prepare, result_of
from p2pd.bench.room import Takes
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.bench.transfer_faults import killed_provider, slow_reader
from p2pd.core.artifact import CHUNK_BYTES

AIOQUIC = "p2pd.bench.floor_aioquic"
TLS = "p2pd.bench.floor_tls"
SIZE_MB = 256 * CHUNK_BYTES / MB
TAKES = Takes(disk=6, memory=1, sizes_mb=(SIZE_MB,))
"""The file, and the copies of five that fetch it; it is made in memory."""
REPEATS = 2
INTERNET_BYTES, LOOPBACK_BYTES = 1200, 16_000
"""Datagrams that pass every path, and the largest."""
OWN = "aioquic's asyncio server, memory to memory"


@dataclass(slots=True)
class Speeds:
    """Of several turns. Load by others can only make them lower: the best of each counts."""

    mb_s: list[float] = field(default_factory=list)
    mb_cpu_s: list[float] = field(default_factory=list)
    """For each second of CPU time of the busier side."""

    def note(self, size_bytes: float, seconds: float, cpu_s: float) -> None:
        self.mb_s.append(size_bytes / MB / seconds)
        self.mb_cpu_s.append(size_bytes / MB / cpu_s)


def run(options: Options) -> Sequence[Row]:
    rows: list[Row] = []
    for size_mb in options.sizes_mb or (SIZE_MB,):
        with TemporaryDirectory(prefix="p2pd-bench-") as directory:
            options.say(f"writing {size_mb:.0f} MB to {directory}")
            place = prepare(Path(directory), int(size_mb * MB))
            rows += throughput(place, options)
            rows += killed_provider(place, INTERNET_BYTES, options)
            rows += slow_reader(place, INTERNET_BYTES, options)
    return rows


def throughput(place: Place, options: Options) -> Sequence[Row]:
    """Ours and the floor by turns, so that both meet the same disturbances."""
    sizes = (INTERNET_BYTES, LOOPBACK_BYTES)
    ours, theirs, tls = {n: Speeds() for n in sizes}, {n: Speeds() for n in sizes}, Speeds()
    for turn in range(options.repeats or REPEATS):
        for size in sizes:
            _between_nodes(place, size, ours[size])
            _floor(AIOQUIC, place, theirs[size], str(size))
            options.say(
                f"turn {turn + 1}, {size}-byte datagrams: {ours[size].mb_s[-1]:.1f} MB/s,"
                f" aioquic's own {theirs[size].mb_s[-1]:.1f} MB/s"
            )
        _floor(TLS, place, tls)
    name = f"{place.size_bytes / MB:.0f} MB, disk to verified disk"
    internet = ours[INTERNET_BYTES]
    return [
        *(
            Row(f"{name}, {n}-byte datagrams", max(ours[n].mb_s), "MB/s", max(theirs[n].mb_s), OWN)
            for n in sizes
        ),
        Row(
            f"{name}, {INTERNET_BYTES}-byte datagrams, of the busier side's CPU",
            max(internet.mb_cpu_s),
            "MB/CPU s",
            max(theirs[INTERNET_BYTES].mb_cpu_s),
            OWN,
        ),
        Row(
            f"{name}, {INTERNET_BYTES}-byte datagrams, beside TCP",
            max(internet.mb_s),
            "MB/s",
            max(tls.mb_s),
            "Python's TLS over TCP, memory to memory",
        ),
    ]


def _between_nodes(place: Place, datagram_bytes: int, speeds: Speeds) -> None:
    size = str(datagram_bytes)
    with Child(NODE, "serve", place.origin, size) as provider:
        node = node_of(provider)
        before_s = provider.cpu_s
        fetch = ("fetch", place.fresh("fetcher"), size, place.artifact.hex(), node)
        with Child(NODE, *fetch) as fetcher:
            result = result_of(fetcher)
            cpu_s = max(provider.cpu_s - before_s, result["cpu_s"])
            speeds.note(place.size_bytes, result["seconds"], cpu_s)


def _floor(module: str, place: Place, speeds: Speeds, *arguments: str) -> None:
    """A child that serves and one that fetches the same number of bytes."""
    arguments = (*arguments, str(place.size_bytes))
    with Child(module, "serve", *arguments) as server:
        port = str(server.hear(START_S)["port"])
        before_s = server.cpu_s
        with Child(module, "fetch", *arguments, port) as client:
            result = client.hear(LIMIT_S)
            cpu_s = max(server.cpu_s - before_s, result["cpu_s"])
            speeds.note(result["received_bytes"], result["seconds"], cpu_s)
