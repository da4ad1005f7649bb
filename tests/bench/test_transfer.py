"""The bench itself, with little to carry: figures of a loaded machine are nothing to assert."""

from pathlib import Path

import pytest

from p2pd.bench.children import Child
from p2pd.bench.suite import Options
from p2pd.bench.transfer import AIOQUIC, prepare, throughput
from p2pd.errors import WorkloadError


def test_every_speed_has_a_floor_of_the_same_run(tmp_path: Path) -> None:
    said: list[str] = []
    rows = throughput(prepare(tmp_path, 2_500_000), Options(said.append, repeats=1))
    assert [row.floor_name.split()[0] for row in rows] == ["aioquic's", "aioquic's", "Python's"]
    assert all(row.value > 0 and row.floor for row in rows)
    assert all((tmp_path / f"fetcher{n}" / "blobs").is_dir() for n in range(2))
    assert len(said) == 2


def test_a_child_that_says_nothing_or_ends_is_an_error() -> None:
    with Child(AIOQUIC, "serve", "1200", "1") as child:
        assert child.hear(30.0)["port"] > 0
        with pytest.raises(WorkloadError, match="said nothing"):
            child.hear(0.01)
        assert child.memory_bytes > 2**20
        child.kill()
        with pytest.raises(WorkloadError, match="ended before"):
            child.hear(1.0)
