from pathlib import Path

from tests.cli.commands import p2pd

WRONG = "def build():\n    return None\n"


def test_a_sound_workload_is_described_with_what_it_costs() -> None:
    ran = p2pd("workload", "check", "p2pd.workloads.digits", "--config", "hidden=8", "--json")
    found = ran.json
    assert ran.code == 0
    assert (found["parameters"], found["buffers"], found["dtypes"]) == (610, 0, {"F32": 610})
    assert (found["data"], found["train_samples"]) == ("indexed", 1437)
    assert (found["samples"], found["steps"]) == (128, 16)
    assert found["deterministic"] is True
    assert found["samples_per_s"] > 0
    assert found["evaluate_s"] > 0
    assert found["update_bytes"]["int8"] < found["update_bytes"]["f32"] / 2
    assert found["window_bytes"]["f32"] == 16 * found["update_bytes"]["f32"]
    assert found["warnings"] == []


def test_what_is_wrong_is_one_line_and_an_exit_of_one(tmp_path: Path) -> None:
    (tmp_path / "wrong_workload.py").write_text(WRONG)
    ran = p2pd("workload", "check", "wrong_workload", "--workload-path", tmp_path)
    assert ran.code == 1
    (line,) = [line for line in ran.err.splitlines() if line.startswith("p2pd: ")]
    assert line.startswith("p2pd: TypeError: build() takes 0 positional arguments but 1 was given")
    assert f"{tmp_path}/wrong_workload.py:1" in line
    assert ran.out == ""


def test_a_workload_that_is_not_there_is_named() -> None:
    ran = p2pd("workload", "check", "no_such_workload")
    assert ran.code == 1
    assert "'no_such_workload' is not installed here" in ran.err
