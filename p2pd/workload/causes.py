"""What lies behind some failures that Python and torch name badly, and what to do about each. Bytes.

The words are those of CPython 3.11 and torch 2.13.
"""

import errno
import os
import tempfile
from pathlib import Path

from p2pd.core.wording import size
from p2pd.machine import SHARED, memory, own_limit, room

DEVICE_FULL = ("out of memory", "allocation on device")
"""In lower case, of CUDA, HIP, MPS and XPU."""
MEMORY_FULL = ("can't allocate memory", "cannot allocate memory", "std::bad_alloc")
SHARED_FULL = ("unable to allocate shared memory", "bus error")
LOADER_LATE = "dataloader timed out"
LOADER_KILLED = "is killed by signal: killed"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
NEARLY_FULL = 2**20


def advice_on(error: BaseException, words: str) -> str:
    """What to do about a failure of the user's code that says these words; empty where its words suffice."""
    text = words.lower()
    if any(one in text for one in SHARED_FULL):
        return shared_memory_advice()
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return _disk_advice(error.filename)
    if isinstance(error, MemoryError) or any(one in text for one in MEMORY_FULL):
        return memory_advice(own_limit())
    if any(one in text for one in DEVICE_FULL):
        return "the device's memory is full: use smaller batches, or another device"
    if LOADER_KILLED in text:
        return f"a process of the data loader was killed: {memory_advice(own_limit())}"
    if LOADER_LATE in text:
        return "the data loader hangs: look at its dataset, or raise its timeout"
    return ""


def memory_advice(limit: int | None) -> str:
    """For a process that wanted more memory than there is, or more than its limit."""
    what = _memory_words(limit)
    remedy = "use smaller batches or a smaller model"
    if limit is not None:
        remedy += ", or raise worker.memory_bytes"
    return f"out of memory, {what}: {remedy}" if what else f"out of memory: {remedy}"


def _memory_words(limit: int | None) -> str:
    if limit is not None:
        return f"it may hold {size(limit)} (worker.memory_bytes)"
    found = memory()
    if found is None:
        return ""
    if found.limit is not None and found.limit < found.total:
        return f"its control group may hold {size(found.limit)}"
    return f"this machine has {size(found.available)} left of {size(found.total)}"


def shared_memory_advice() -> str:
    """For a process that touched, or wanted, more shared memory than there is room for."""
    found = room(SHARED)
    has = "" if found is None else f" has {size(found.free)} free of {size(found.total)}"
    return (
        f"{SHARED}{has}, and processes of a data loader pass batches through it: make it larger (docker run"
        f" --shm-size=1g, or mount -o remount,size=1G {SHARED}), or set num_workers=0"
    )


def _disk_advice(filename: object) -> str:
    if isinstance(filename, str | bytes):
        place = Path(os.fsdecode(filename)).absolute().parent
        return f"the disk of {place} is full{_free(place)}: free some space"
    full = [place for place in _places() if (found := room(place)) and found.free < NEARLY_FULL]
    names = " and ".join(str(place) for place in dict.fromkeys(full))
    return f"no room is left in {names}: free some space" if names else "free some space"


def _places() -> tuple[Path, ...]:
    return Path(tempfile.gettempdir()), Path.cwd(), SHARED


def _free(place: Path) -> str:
    found = room(place)
    return "" if found is None else f", {size(found.free)} left of {size(found.total)}"
