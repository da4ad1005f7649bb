"""Seconds per certified window: a fleet of real daemons on loopback, 4 trainers and 3 validators.

The trainers train nothing (p2pd.workloads.still): what is left is what a window costs besides. Each
figure is the median over windows and validators, so that parts need not sum to the total exactly.
Datagrams are of 16,000 bytes, as the loopback profile has them.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import trio

from p2pd.bench.fleet import Measured, Shape, run_fleet
from p2pd.bench.floors import memcpy_bytes_s, synced_write_s, tcp_bytes_s
from p2pd.bench.room import Takes
from p2pd.bench.rows import Row
from p2pd.bench.suite import Options
from p2pd.core.wording import counted
from p2pd.errors import P2pError

SIZES_MB = (0.94, 100.0, 400.0)
TAKES = Takes(disk=75, memory=7, sizes_mb=SIZES_MB)
"""Seven models in memory; on disk, as measured, what seven nodes keep of heads and updates in three windows."""
STEPS = ("publish", "fetch", "screen", "merge", "evaluate", "vote", "adopt")
"""One ends where the next begins."""
MB = 1e6
SMALL_MB = 10.0
SMALL_WINDOWS, LARGE_WINDOWS = 20, 2
SMALL_WARM_UP, LARGE_WARM_UP = 3, 1
"""Trainers join one by one, and the first window builds every workload: it is long if it is large."""
LIMIT_S = 900.0
FLOOR_BYTES = 64 * 2**20


def run(options: Options) -> Sequence[Row]:
    rows: list[Row] = []
    for size_mb in options.sizes_mb or SIZES_MB:
        small = size_mb <= SMALL_MB
        warm_up = SMALL_WARM_UP if small else LARGE_WARM_UP
        measured = options.repeats or (SMALL_WINDOWS if small else LARGE_WINDOWS)
        shape = Shape(megabytes=size_mb, windows=warm_up + measured, warm_up=warm_up)
        with tempfile.TemporaryDirectory(prefix="p2pd-bench-") as directory:
            found = trio.run(run_fleet, Path(directory), shape, LIMIT_S, options.say)
            rows += report(shape, found, _floors(shape, Path(directory)))
    return rows


def _floors(shape: Shape, directory: Path) -> Mapping[str, tuple[float, str]]:
    size_bytes = round(shape.megabytes * MB)
    models = shape.trainers * shape.validators
    tcp_s = size_bytes / tcp_bytes_s(max(size_bytes, FLOOR_BYTES))
    copy_s = shape.trainers * size_bytes / memcpy_bytes_s(FLOOR_BYTES)
    everything = models + shape.trainers
    return {
        "publish": (synced_write_s(size_bytes, directory), "one model written and synced"),
        "fetch": (models * tcp_s, f"{counted(models, 'model')} over one TCP connection"),
        "screen": (copy_s, f"{counted(shape.trainers, 'model')} by memcpy"),
        "merge": (copy_s, f"{counted(shape.trainers, 'model')} by memcpy"),
        "total": (everything * tcp_s, f"{counted(everything, 'model')} over one TCP connection"),
        "wire": (everything * size_bytes / MB, f"{counted(everything, 'model')}"),
    }


def report(shape: Shape, found: Measured, floors: Mapping[str, tuple[float, str]]) -> Sequence[Row]:
    """Raises P2pError: there was no window to which all trainers contributed."""
    judges = [rows for name, rows in found.rows.items() if name.startswith("validator")]
    windows = [durations(row) for rows in judges for row in rows]
    if not windows:
        raise P2pError(
            "no window had an update of every trainer: nothing was measured: more --repeats"
        )
    name = f"{shape.megabytes:g}MB"

    def row(what: str, value: float, unit: str) -> Row:
        return Row(f"{name} {what}", value, unit, *floors.get(what, ()))

    rows = [row(step, median(window[step] for window in windows), "s") for step in STEPS]
    totals = [sum(window.values()) for window in windows]
    rows.append(row("total", median(totals), "s"))
    rows.append(row("wire", found.wire_bytes / MB, "MB"))
    return rows


def durations(row: Mapping[str, Any]) -> dict[str, float]:
    """What each step took: from the end of the one before it, if it was not over by then already."""
    after_s = {step["step"]: step["after_s"] for step in row["steps"]}
    taken: dict[str, float] = {}
    reached_s = 0.0
    for step in STEPS:
        end_s = max(reached_s, after_s.get(step, 0.0))
        taken[step] = end_s - reached_s
        reached_s = end_s
    return taken
