from pathlib import Path

from p2pd.bench.floors import best_s, memcpy_bytes_s, synced_write_s, tcp_bytes_s


def test_the_best_of_several_runs_counts() -> None:
    runs: list[int] = []
    assert best_s(lambda: runs.append(1), 4) >= 0
    assert len(runs) == 4


def test_every_floor_is_a_positive_figure(tmp_path: Path) -> None:
    assert memcpy_bytes_s(1_000_000) > 0
    assert tcp_bytes_s(2_500_000) > 0
    assert synced_write_s(1000, tmp_path) > 0
    assert list(tmp_path.iterdir()) == []
