"""The bench itself, with little to carry: figures of a loaded machine are nothing to assert."""

from pathlib import Path

import pytest

from p2pd.bench.children import Child
from p2pd.bench.places import prepare
from p2pd.bench.soak import slope
from p2pd.bench.suite import Options
from p2pd.bench.transfer import AIOQUIC, throughput
from p2pd.bench.transfer_faults import killed_provider, slow_reader
from p2pd.errors import WorkloadError


def test_every_speed_has_a_floor_of_the_same_run(tmp_path: Path) -> None:
    said: list[str] = []
    rows = throughput(prepare(tmp_path, 2_500_000), Options(said.append, repeats=1))
    assert [row.floor_name.split()[0] for row in rows] == ["aioquic's"] * 3 + ["Python's"]
    assert all(row.value > 0 and row.floor for row in rows)
    assert all((tmp_path / f"fetcher{n}" / "blobs").is_dir() for n in range(2))
    assert len(said) == 2


def test_a_killed_provider_and_a_slow_reader_are_measured(tmp_path: Path) -> None:
    said: list[str] = []
    options = Options(said.append)
    place = prepare(tmp_path, 8 * 2**20)
    pause, rest, wire = killed_provider(place, 16_000, options)
    assert pause.value > 0
    assert rest.value > 0
    assert wire.value > (wire.floor or 0.0) > 8
    grown, longest, read = slow_reader(place, 16_000, options, watch_s=1.0)
    assert grown.value > 0
    assert longest.value > 0
    assert read.value > 0
    assert len(said) == 2


def test_the_slope_is_that_of_the_parts_behind_the_warm_ones() -> None:
    assert slope([100, 50, *range(0, 80, 10)]) == 10.0
    assert slope([7, 7, 7, 7, 7]) == 0.0
    assert slope([7]) == 0.0


def test_a_child_that_says_nothing_or_ends_is_an_error() -> None:
    with Child(AIOQUIC, "serve", "1200", "1") as child:
        assert child.hear(30.0)["port"] > 0
        with pytest.raises(WorkloadError, match="said nothing"):
            child.hear(0.01)
        assert child.memory_bytes > 2**20
        child.kill()
        with pytest.raises(WorkloadError, match="ended before"):
            child.hear(1.0)
