import pytest

from p2pd.bench import room
from p2pd.bench.room import GB, Takes, check_room, free_memory_bytes
from p2pd.errors import UsageError
from tests.cli.commands import p2pd

TAKES = Takes(disk=8, memory=5, sizes_mb=(100.0,))


def free(monkeypatch: pytest.MonkeyPatch, disk_gb: float, memory_gb: float) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _: round(disk_gb * GB))
    monkeypatch.setattr(room, "free_memory_bytes", lambda: round(memory_gb * GB))


@pytest.mark.parametrize(
    ("bench", "extra"), [("merge", ()), ("transfer", ()), ("window", ("--json",))]
)
def test_a_size_that_this_machine_has_no_room_for_is_refused_at_once(
    bench: str, extra: tuple[str, ...]
) -> None:
    ran = p2pd("bench", bench, "--size", 0.001, "--size", 100_000, *extra)
    assert ran.code == 2
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert line.startswith(f"p2pd: bench {bench} of 100000 MB takes ")
    assert " are free: a smaller --size" in line


def test_what_it_takes_is_compared_with_disk_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 0.8, 0.5)
    check_room("merge", TAKES, ())
    check_room("merge", TAKES, (1.0, 100.0))
    with pytest.raises(UsageError, match=r"takes 0\.9 GB in .*another TMPDIR"):
        check_room("merge", TAKES, (1.0, 112.0))
    free(monkeypatch, 8, 0.4)
    with pytest.raises(UsageError, match=r"takes 0\.5 GB of memory, and 0\.4 GB are free"):
        check_room("merge", TAKES, ())


@pytest.mark.parametrize("bench", ["votes", "simulate", "soak"])
def test_a_bench_without_a_size_takes_none(bench: str) -> None:
    ran = p2pd("bench", bench, "--size", 1)
    assert ran.code == 2
    assert ran.err == f"p2pd: --size: bench {bench} has no size to choose: leave it out\n"


def test_there_is_some_memory() -> None:
    assert 10**7 < free_memory_bytes() < 10**15
