"""What only the workload's own process can see of it: for the check of a workload, never asked in training."""

import multiprocessing
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch

from p2pd.workload.protocol import Footprint

PYTHONS_OWN = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")
"""Processes that Python starts beside a user's, and ends itself."""


def tied_names(aliases: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Groups of names that are one tensor, from the names that others stand for."""
    groups: dict[str, list[str]] = {}
    for alias, name in sorted(aliases.items()):
        groups.setdefault(name, [name]).append(alias)
    return tuple(tuple(groups[name]) for name in sorted(groups))


def first_difference(
    found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]
) -> str | None:
    """The first tensor that is not the same to the bit, NaNs aside; both have the same names and shapes."""
    for name, tensor in wanted.items():
        if not torch.equal(found[name].detach().cpu(), tensor):
            return name
    return None


def left_running() -> tuple[int, ...]:
    """Processes that the user's code has started and that are there still, but for those that load data."""
    loading = {child.pid for child in multiprocessing.active_children()}
    own = os.getpid()
    # Orphans are handed to the keeper above.
    found = {*_children(own), *_children(os.getppid())} - loading - {own}
    return tuple(sorted(pid for pid in found if not _is_pythons_own(pid)))


def resident_bytes() -> int:
    """Memory that this process holds now; where there is no /proc, at most so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return _peak_bytes()
    return pages * resource.getpagesize()


def footprint(built_bytes: int) -> Footprint:
    """Of this process, that held so much when its workload was built."""
    peaks = [0]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        peaks = [torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count())]
    most = max(peaks)
    device = f"cuda:{peaks.index(most)}" if most else ""
    return Footprint(built_bytes, max(built_bytes, _peak_bytes()), device, most)


def _peak_bytes() -> int:
    """Source: getrusage(2)."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _children(pid: int) -> Iterator[int]:
    """Nothing where there is no /proc."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            yield from map(int, path.read_text().split())


def _is_pythons_own(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True  # it has just ended
    return any(name in command for name in PYTHONS_OWN)
