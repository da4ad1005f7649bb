"""What this machine has: memory, what the kernel did for want of it, room on disks. Bytes.

Sources: proc(5), the kernel's admin-guide/cgroup-v1/memory and cgroup-v2. Where a file is missing, nothing is known.
"""

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

SHARED = Path("/dev/shm")
"""Where shared memory has its file system on Linux."""
NO_LIMIT = 2**62
"""cgroup v1 says so much, or a little less, for none."""
KIB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    total: int
    available: int
    """Could be taken without anything being written to swap."""
    limit: int | None
    """Of the control groups that this process is in: the least of them; None for none."""


@dataclass(frozen=True, slots=True)
class Room:
    total: int
    free: int
    """For who is not root."""


def memory() -> Memory | None:
    """None where the kernel does not say."""
    numbers = _numbers(Path("/proc/meminfo"), ":")
    total, available = numbers.get("MemTotal"), numbers.get("MemAvailable")
    if total is None or available is None:
        return None
    limits = [found for name in _LIMITS for found in _figures(name) if found < NO_LIMIT]
    return Memory(total * KIB, available * KIB, min(limits, default=None))


def own_limit() -> int | None:
    """Of the data that this process may hold."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def memory_kills() -> int | None:
    """How many processes the kernel has killed for want of memory, here or in the control groups around.

    None where it does not say.
    """
    counts = [_numbers(Path("/proc/vmstat"), " ").get("oom_kill")]
    for group in _groups():
        counts += [_numbers(group / name, " ").get("oom_kill") for name in _EVENTS]
    return max((count for count in counts if count is not None), default=None)


def room(path: Path) -> Room | None:
    """Of the file system that a path lies on."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return Room(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


_EVENTS = ("memory.events", "memory.oom_control")
"""Files of cgroup v2 and v1."""
_LIMITS = ("memory.max", "memory.limit_in_bytes")


def _figures(name: str) -> list[int]:
    """What a file of one number says in each of the groups."""
    found = []
    for group in _groups():
        text = _read(group / name).strip()
        if text.isdigit():
            found.append(int(text))
    return found


def _groups(controller: str = "memory") -> list[Path]:
    """The directories of the control groups that bound this process so, the innermost first."""
    if sys.platform != "linux":
        return []
    groups: list[Path] = []
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = Path(f"/sys/fs/cgroup/{controller}" if controllers else "/sys/fs/cgroup")
        inner = root / path.lstrip("/")
        # In a container the path may be the host's: what is mounted is the group itself.
        groups += [one for one in (inner, *inner.parents) if one.is_relative_to(root)]
    return groups


def _numbers(path: Path, separator: str) -> dict[str, int]:
    """Lines of a name and a number."""
    found = {}
    for line in _read(path).splitlines():
        name, _, rest = line.partition(separator)
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def cores() -> float:
    """Processors that this process may use, by its affinity and its control groups."""
    count = float(len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1)
    for group in _groups("cpu"):
        words = _read(group / "cpu.max").split() or [
            _read(group / "cpu.cfs_quota_us").strip(),
            _read(group / "cpu.cfs_period_us").strip(),
        ]
        if len(words) == 2 and all(word.isdigit() and int(word) for word in words):
            count = min(count, int(words[0]) / int(words[1]))
    return count
