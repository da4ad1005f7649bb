"""What a bench takes of disk and memory, compared with what is free before it starts. MB are 10**6 bytes."""

import os
from dataclasses import dataclass
from pathlib import Path

from p2pd.errors import UsageError
from p2pd.io.durable import free_bytes, temporary_directory

MB = 10**6
GB = 10**9
CGROUP = Path("/sys/fs/cgroup")
"""Source: cgroup v2, memory.max and memory.current."""


@dataclass(frozen=True, slots=True)
class Takes:
    """Times the size of one model or file, at least."""

    disk: float
    memory: float
    sizes_mb: tuple[float, ...]
    """Where nobody names any; in MB."""


def check_room(bench: str, takes: Takes, sizes_mb: tuple[float, ...]) -> None:
    """Raises UsageError: it would fill the disk or the memory."""
    most_mb = max(sizes_mb or takes.sizes_mb)
    place = temporary_directory()
    found = (
        (takes.disk, f"in {place}", free_bytes(place), "a smaller --size, or another TMPDIR"),
        (takes.memory, "of memory", free_memory_bytes(), "a smaller --size"),
    )
    for times, where, free, advice in found:
        if times * most_mb * MB > free:
            raise UsageError(
                f"bench {bench} of {most_mb:g} MB takes {times * most_mb * MB / GB:,.1f} GB {where}, "
                f"and {free / GB:,.1f} GB are free: {advice}"
            )


def free_memory_bytes() -> int:
    """Of the machine, or of the part of it that these processes may have."""
    free = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free.append(int(lines["MemAvailable"].split()[0]) * 1024)
    limit, current = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.exists() and (most := limit.read_text().strip()) != "max":
        free.append(int(most) - int(current.read_text()))
    return min(free)
