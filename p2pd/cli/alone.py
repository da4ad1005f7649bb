"""Runs `python -m p2pd.workload.alone` and draws what it measured. Units: samples, seconds."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p2pd.errors import WorkloadError
from p2pd.io.endings import ending
from p2pd.lifeline import tied

ROWS = 10
COLUMNS = 60
KILL_AFTER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    module: str
    config: str
    """JSON."""
    samples: int
    every: int
    threads: int
    path: Path | None
    data: tuple[Path, ...] = ()
    """Directories of shard files."""
    traceback: bool = False
    """Of the user's code, on standard error, where it fails."""


def train(job: Job, report: Callable[[str], None]) -> dict[str, Any]:
    """Trains, with a line of progress for each measurement; what came out, all points included.

    Raises:
        WorkloadError: the workload failed, in its own words.
    """
    command = tied("p2pd.workload.alone", job.module, "--config", job.config)
    command += ["--samples", str(job.samples), "--every", str(job.every)]
    command += ["--threads", str(job.threads)]
    if job.traceback:
        command.append("--traceback")
    if job.path is not None:
        command += ["--path", str(job.path)]
    for directory in job.data:
        command += ["--data", str(directory)]
    points: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    # A session of its own: an interrupt reaches this process alone, which then ends the other.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            match json.loads(line):
                case {"point": dict() as point}:
                    points.append(point)
                    report(progress(point, job.samples))
                case other:
                    last = other
        code = process.wait()
    finally:
        _end(process)
        process.stdout.close()
    if "error" in last:
        raise WorkloadError(last["error"])
    if "result" not in last:
        raise WorkloadError(
            f"the process of workload {job.module} ended: {ending(code)}: see what it printed"
        )
    return {**last["result"], "points": points}


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def progress(point: dict[str, Any], samples: int) -> str:
    return (
        f"{point['samples']:>{len(str(samples))}} samples  {point['metric']:.4f}  "
        f"loss {point['loss']:.4f}  {point['seconds']:6.1f} s"
    )


def curve(points: Sequence[dict[str, Any]], metric: str) -> list[str]:
    """The metric over samples, drawn in text."""
    last = points[-1]["samples"]
    values = [point["metric"] for point in points]
    low, high = min(values), max(values)
    grid = [[" "] * (COLUMNS + 1) for _ in range(ROWS)]
    for point in points:
        column = round(point["samples"] / last * COLUMNS) if last else 0
        row = round((point["metric"] - low) / (high - low) * (ROWS - 1)) if high > low else 0
        grid[row][column] = "●"
    lines = []
    for row in reversed(range(ROWS)):
        value = low + (high - low) * row / (ROWS - 1)
        lines.append(f"{value:8.4f} ┤{''.join(grid[row]).rstrip()}")
    left = " " * 9
    return [f"{metric}", *lines, f"{left}└{'─' * COLUMNS}", f"{left}0{last:>{COLUMNS}} samples"]
