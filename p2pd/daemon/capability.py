"""Which roles a machine can play, and why not; what a trainer on it can take. Pure. Seconds, bytes, samples."""

from dataclasses import dataclass

from p2pd.core.wording import size
from p2pd.io.probing import Machine
from p2pd.machine import Memory

ROLES = ("bootstrap", "viewer", "reducer", "validator", "trainer")
DAEMON_BYTES = 128 * 2**20
MATH_BYTES = 512 * 2**20
TORCH_BYTES = 600 * 2**20
"""What torch alone takes, with a small model."""
OPEN_FILES_LEAST = 256
RESERVE_BYTES = 500 * 10**6
"""That a node leaves free by default (store.reserve_bytes)."""
HEADS, UPDATES = 10, 16
"""States of the model that a validator holds: of the last heights, and of a window (schedule.max_roster)."""
TRAINERS_STATES = 6
"""Heads, updates, and what it keeps of its last leases."""
MEMORY_SHARE = 0.8
"""Of what is left, that a batch may fill."""
BATCH_DOUBLINGS = 20
"""No more is promised of a batch than so many times twice as much."""
TYPICAL_LEASE_S = 60.0


@dataclass(frozen=True, slots=True)
class Fit:
    """A workload as it ran here."""

    module: str
    samples_s: float
    batch: int
    """Samples of a step."""
    state_bytes: int
    """Of the model, as one update carries it."""
    evaluate_s: float
    built_bytes: int
    """Memory of its process before the first lease."""
    peak_bytes: int
    device: str = ""
    """Where it trains, if that has a memory of its own."""
    device_peak_bytes: int = 0
    device_total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Playable:
    role: str
    can: bool
    why: str
    """What is missing; empty where nothing is."""


def playable(
    machine: Machine, fit: Fit | None, fit_why: str, *, numpy: bool
) -> tuple[Playable, ...]:
    """fit_why: why a workload that was asked for did not run."""
    found = []
    for role in ROLES:
        lacks = _lacks(machine, role, numpy=numpy)
        if role in ("validator", "trainer"):
            lacks += [f"the workload fails here: {fit_why}"] if fit_why else []
            lacks += _too_small_for(machine, role, fit) if fit is not None else []
        found.append(Playable(role, not lacks, "; ".join(lacks)))
    return tuple(found)


def _lacks(machine: Machine, role: str, *, numpy: bool) -> list[str]:
    lacks = []
    needed = DAEMON_BYTES
    needed += MATH_BYTES * (role in ("reducer", "validator"))
    needed += TORCH_BYTES * (role in ("validator", "trainer"))
    have = usable_bytes(machine.memory)
    if have is not None and have < needed:
        lacks.append(f"it takes {size(needed)} of memory at the least, {size(have)} are left")
    if machine.disk.why:
        lacks.append(f"{machine.disk.place}: {machine.disk.why}")
    elif machine.disk.room is not None and machine.disk.room.free < RESERVE_BYTES:
        lacks.append(
            f"{machine.disk.place} has {size(machine.disk.room.free)} free, {size(RESERVE_BYTES)} stay"
            " free (store.reserve_bytes)"
        )
    if machine.open_files < OPEN_FILES_LEAST:
        lacks.append(
            f"{machine.open_files} open files are too few: raise the limit (ulimit -n 4096)"
        )
    if role in ("validator", "trainer") and machine.torch is None:
        lacks.append(machine.torch_why)
    if role in ("reducer", "validator") and not numpy:
        lacks.append("numpy is not installed: pip install numpy")
    return lacks


def _too_small_for(machine: Machine, role: str, fit: Fit) -> list[str]:
    lacks = []
    states = HEADS + UPDATES if role == "validator" else TRAINERS_STATES
    needed = RESERVE_BYTES + states * fit.state_bytes
    free = machine.disk.room.free if machine.disk.room is not None else None
    if free is not None and free < needed:
        lacks.append(
            f"{states} states of this model and the reserve take {size(needed)} of disk,"
            f" {machine.disk.place} has {size(free)}"
        )
    have = usable_bytes(machine.memory)
    if have is not None and have < fit.peak_bytes:
        lacks.append(f"the workload took {size(fit.peak_bytes)} of memory, {size(have)} are left")
    return lacks


def usable_bytes(memory: Memory | None) -> int | None:
    """What a node may count on."""
    if memory is None:
        return None
    return memory.available if memory.limit is None else min(memory.available, memory.limit)


def safe_batch(machine: Machine, fit: Fit) -> int | None:
    """The largest batch that certainly fits, by what one sample took; None where memory is not known.

    A measurement that the batch did not move says only that it is small beside all else.
    """
    if fit.device_total_bytes:
        start, peak, most = 0, fit.device_peak_bytes, fit.device_total_bytes
    else:
        have = usable_bytes(machine.memory)
        if have is None:
            return None
        start, peak, most = fit.built_bytes, fit.peak_bytes, have
    each = max(1, (peak - start) // fit.batch)
    room = int((most - start) * MEMORY_SHARE)
    return max(1, min(room // each, fit.batch << BATCH_DOUBLINGS))


def lease_samples(fit: Fit) -> int:
    """What it trains in a minute: a lease of about so many samples is neither short nor long."""
    return max(fit.batch, round(fit.samples_s * TYPICAL_LEASE_S))
