"""What this machine is and has, measured without hurry: for p2pd doctor. Seconds, bytes.

Blocks for as long as its parts take: some milliseconds, and with torch some seconds, in a process of its own.
"""

import ctypes
import json
import os
import platform
import resource
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any

from p2pd.errors import advice
from p2pd.io.overlay.sockets import SOCKET_BYTES
from p2pd.lifeline import tied
from p2pd.machine import SHARED, Memory, Room, cores, memory, room

TORCH_S = 120.0
"""Importing it takes seconds, on a slow disk many."""
SYNC_BYTES = 2**20
SYNCS = 5
TIME_ERROR = 5
"""adjtimex(2): nothing keeps this clock right."""
TIMEX_BYTES = 512
"""More than the structure has on any machine."""


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    kind: str
    free_bytes: int
    total_bytes: int
    """0 where it is that of the machine."""
    flops: int


@dataclass(frozen=True, slots=True)
class Torch:
    version: str
    threads: int
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Disk:
    place: str
    room: Room | None
    sync_s: float | None
    """To write a megabyte and have it on stable storage: the median; None where it cannot be written."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    python: str
    system: str
    cores: float
    memory: Memory | None
    shared: Room | None
    disk: Disk
    open_files: int
    udp_buffer_bytes: int
    """Of what was asked for, what the kernel grants."""
    clock_kept: bool | None
    """Something keeps it right, as far as the kernel knows; None where it does not say."""
    torch: Torch | None
    torch_why: str
    """Why there is none."""


def probe(data_dir: Path) -> Machine:
    found, why = _torch()
    return Machine(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        cores=cores(),
        memory=memory(),
        shared=room(SHARED),
        disk=_disk(data_dir),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        udp_buffer_bytes=_udp_buffer(),
        clock_kept=_clock_kept(),
        torch=found,
        torch_why=why,
    )


def _torch() -> tuple[Torch | None, str]:
    command = tied("p2pd.workload.probe")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_S, check=False)
    except subprocess.TimeoutExpired:
        return None, f"torch was not ready within {TORCH_S:g} s: look at the disk and at the GPUs"
    said = done.stderr.strip().rpartition("\n")[2]
    if done.returncode != 0:
        missing = "No module named" in said
        return None, "torch is not installed: pip install 'p2pd-fleet[torch]'" if missing else said
    found: dict[str, Any] = json.loads(done.stdout)
    devices = tuple(Device(**one) for one in found["devices"])
    return Torch(found["version"], found["threads"], devices), ""


def _disk(data_dir: Path) -> Disk:
    place = data_dir.absolute()
    while not place.exists():
        place = place.parent
    times = []
    try:
        with TemporaryFile(dir=place) as file:
            for _ in range(SYNCS):
                start_s = perf_counter()
                file.write(bytes(SYNC_BYTES))
                file.flush()
                os.fsync(file.fileno())
                times.append(perf_counter() - start_s)
    except OSError as error:
        return Disk(str(place), room(place), None, advice(error))
    return Disk(str(place), room(place), sorted(times)[SYNCS // 2])


def _udp_buffer() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        with suppress(OSError):  # macOS refuses what is too much
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        granted = one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return granted // 2 if sys.platform == "linux" else granted  # socket(7): it is doubled


def _clock_kept() -> bool | None:
    if sys.platform != "linux":
        return None
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    return None if state < 0 else state != TIME_ERROR
