"""What follows from a machine and a workload: pure, on machines that are made up."""

from dataclasses import replace

import pytest

from p2pd.daemon.capability import ROLES, Fit, lease_samples, playable, safe_batch
from p2pd.io.probing import Device, Disk, Machine, Torch
from p2pd.machine import Memory, Room

GB = 10**9
CPU = Device("cpu", "processor", 0, 0, 10**10)
GOOD = Machine(
    python="3.11.7",
    system="Linux",
    cores=4.0,
    memory=Memory(16 * GB, 8 * GB, None),
    shared=Room(GB, GB),
    disk=Disk("/data", Room(100 * GB, 50 * GB), 0.002),
    open_files=1024,
    udp_buffer_bytes=2**22,
    clock_kept=True,
    torch=Torch("2.13.0", 4, (CPU,)),
    torch_why="",
)
FIT = Fit("mine", 500.0, 32, 40 * 10**6, 1.5, 600 * 10**6, 920 * 10**6)


def why_not(machine: Machine, fit: Fit | None = None, why: str = "") -> dict[str, str]:
    """By role, of those that cannot be played."""
    found = playable(machine, fit, why, numpy=True)
    assert [one.role for one in found] == list(ROLES)
    assert all(one.can == (not one.why) for one in found)
    return {one.role: one.why for one in found if not one.can}


def test_a_good_machine_can_play_every_role() -> None:
    assert why_not(GOOD, FIT) == {}


@pytest.mark.parametrize(
    ("changes", "roles", "said"),
    [
        ({"memory": Memory(GB, 10**8, None)}, set(ROLES), "of memory at the least, 100 MB are left"),
        ({"memory": Memory(64 * GB, 32 * GB, 5 * 10**8)}, {"reducer", "validator", "trainer"}, "500 MB are left"),
        ({"disk": Disk("/data", Room(GB, 10**8), 0.1)}, set(ROLES), "/data has 100 MB free"),
        ({"disk": Disk("/data", None, None, "permission denied")}, set(ROLES), "/data: permission denied"),
        ({"open_files": 64}, set(ROLES), "64 open files are too few"),
        ({"torch": None, "torch_why": "torch is not installed"}, {"validator", "trainer"}, "torch is not"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_of_the_roles_that_need_it(
    changes: dict[str, object], roles: set[str], said: str
) -> None:
    found = why_not(replace(GOOD, **changes))  # type: ignore[arg-type]
    assert found.keys() == roles
    assert all(said in why for why in found.values())


def test_without_numpy_nobody_merges() -> None:
    found = playable(GOOD, None, "", numpy=False)
    assert [one.role for one in found if not one.can] == ["reducer", "validator"]


def test_a_workload_that_fails_or_does_not_fit_is_said_of_those_who_run_it() -> None:
    failed = why_not(GOOD, None, "ValueError: no luck (mine.py:3)")
    assert failed.keys() == {"validator", "trainer"}
    assert failed["trainer"] == "the workload fails here: ValueError: no luck (mine.py:3)"
    large = why_not(GOOD, replace(FIT, state_bytes=3 * GB))
    assert large == {
        "validator": "26 states of this model and the reserve take 78 GB of disk, /data has 50 GB"
    }
    hungry = why_not(GOOD, replace(FIT, peak_bytes=9 * GB))
    assert hungry["trainer"] == "the workload took 9.0 GB of memory, 8.0 GB are left"


def test_a_batch_is_safe_that_leaves_a_fifth_of_the_memory() -> None:
    each = (FIT.peak_bytes - FIT.built_bytes) // FIT.batch
    batch = safe_batch(GOOD, FIT)
    assert batch == int((8 * GB - FIT.built_bytes) * 0.8) // each
    assert safe_batch(replace(GOOD, memory=None), FIT) is None
    assert safe_batch(GOOD, replace(FIT, built_bytes=9 * GB, peak_bytes=9 * GB)) == 1
    gpu = replace(FIT, device="cuda:0", device_peak_bytes=GB, device_total_bytes=24 * GB)
    assert safe_batch(GOOD, gpu) == int(24 * GB * 0.8) // (GB // 32)


def test_a_lease_is_what_is_trained_in_a_minute_and_a_batch_at_the_least() -> None:
    assert lease_samples(FIT) == 30_000
    assert lease_samples(replace(FIT, samples_s=0.01)) == 32
