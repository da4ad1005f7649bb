from pathlib import Path

import pytest

from p2pd.cli.alone import curve
from tests.cli.commands import p2pd
from tests.cli.test_experiment import WORKLOAD


def test_training_alone_reports_its_points(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(WORKLOAD)
    arguments = ["--local", "tiny", "--workload-path", tmp_path, "--config", "classes=2"]
    ran = p2pd("train", *arguments, "--samples", 20, "--every", 10, "--json")
    assert ran.code == 0, ran.err
    assert [point["samples"] for point in ran.json["points"]] == [0, 10, 20]
    assert ran.json["metric"] == "accuracy"


def test_a_workload_that_is_not_there_is_said(tmp_path: Path) -> None:
    ran = p2pd("train", "--local", "nowhere.at_all", "--samples", 10)
    assert ran.code == 1
    assert ran.err.startswith("p2pd: workload 'nowhere.at_all' cannot be found")


def test_a_workload_that_raises_is_one_line_and_its_traceback_is_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("def build(config):\n    raise RuntimeError('no luck')\n")
    words = ("train", "--local", "broken", "--samples", 8, "--workload-path", tmp_path)
    ran = p2pd(*words)
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert "no luck" in line
    assert "broken.py:2" in line
    assert capfd.readouterr().err == ""  # of the process that trains
    asked = p2pd(*words, "--traceback")
    assert (asked.code, asked.err) == (1, ran.err)
    assert capfd.readouterr().err.startswith("Traceback")


def test_samples_must_be_positive() -> None:
    assert p2pd("train", "--local", "x", "--samples", 0).code == 2


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5], [0.1, 0.9, 0.4]])
def test_a_curve_has_a_dot_for_each_point_that_has_a_place_of_its_own(values: list[float]) -> None:
    points = [{"samples": 100 * n, "metric": value} for n, value in enumerate(values)]
    lines = curve(points, "accuracy")
    assert lines[0] == "accuracy"
    assert sum(line.count("●") for line in lines) == len(values)
    assert max(len(line) for line in lines) <= 80


def test_a_curve_runs_from_the_lowest_to_the_highest() -> None:
    lines = curve([{"samples": 0, "metric": 0.1}, {"samples": 50, "metric": 0.9}], "accuracy")
    assert lines[1].startswith("  0.9000 ┤")
    assert lines[1].endswith("●")
    assert lines[-3].startswith("  0.1000 ┤●")
    assert lines[-1].endswith("50 samples")
