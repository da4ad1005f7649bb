"""`p2pd demo`, whole and broken off."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.end_to_end.commands import begin, p2pd
from tests.end_to_end.fleet_bench import until
from tests.end_to_end.processes import Process, gone, naming, processes, worker_of

LIMIT_S = 150.0
SCRIPT = Path(__file__).parents[2] / "scripts" / "load_head.py"
KEYS = [
    "ok",
    "head",
    "height",
    "accuracy",
    "central_accuracy",
    "agree",
    "seconds",
    "nodes",
    "heights",
]


def test_a_small_demo_prints_one_line_of_json_and_leaves_its_files_alone(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    small = ("--trainers", 2, "--validators", 1, "--reducers", 0, "--windows", 8)
    ran = p2pd("demo", "--json", "--dir", directory, *small)
    assert ran.code == 0, ran.err
    (line,) = ran.out.splitlines()
    result = json.loads(line)
    assert set(KEYS) <= set(result)
    assert result["ok"] is True
    assert result["agree"] is True
    assert result["accuracy"] >= 0.95
    # The last head's measurement was a moment old when the nodes were told to leave.
    assert result["heights"][-1]["accuracy"] == result["accuracy"]
    assert [node["role"] for node in result["nodes"]].count("trainer") == 2
    assert len({(node["head"], node["height"]) for node in result["nodes"]}) == 1
    promoted = [row for row in result["heights"] if row["outcome"] == "promoted"]
    assert len(promoted) == 8
    assert promoted[-1]["height"] == result["height"]
    assert (directory / "nodes" / "validator1" / "ledger.sqlite").exists()
    assert naming(directory) == []
    assert abs(result["accuracy"] - result["central_accuracy"]) <= 0.02
    verify_and_load(directory, tmp_path / "head.safetensors", result["accuracy"])


def verify_and_load(directory: Path, out: Path, accuracy: float) -> None:
    """The lineage holds, and torch alone gets the certified accuracy out of the exported head."""
    data_dir = directory / "nodes" / "validator1"
    where = ("--genesis", directory / "genesis.cbor", "--data-dir", data_dir)
    assert p2pd("heads", "verify", *where).code == 0
    assert p2pd("heads", "export", *where, "--out", out).code == 0
    done = subprocess.run(
        [sys.executable, SCRIPT, out], capture_output=True, text=True, check=True, timeout=60
    )
    assert float(done.stdout) == pytest.approx(accuracy, abs=1e-6)


def tree(root: int) -> list[Process]:
    """A process and all that it started, directly or not."""
    found, all_now = [], processes()
    wanted = [root]
    while wanted:
        pid = wanted.pop()
        if pid in all_now:
            found.append(all_now[pid])
            wanted += [p.pid for p in all_now.values() if p.parent == pid]
    return found


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, -15)]
)
def test_a_demo_that_is_broken_off_leaves_no_process(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    directory, output = tmp_path / "demo", tmp_path / "output.txt"
    small = ("--reducers", 0, "--trainers", 1, "--validators", 1)
    demo = begin("demo", "--dir", directory, *small, output=output)

    async def busy() -> list[Process]:
        """All of its processes, once a worker of a node imports torch."""
        await trio.lowlevel.checkpoint()
        assert demo.poll() is None, output.read_text()
        nodes = [p for p in naming(directory) if "p2pd.daemon.tied" in p.command]
        workers = [p for p in nodes if worker_of(p.pid) is not None]
        return tree(demo.pid) if len(nodes) == 4 and len(workers) == 2 else []

    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            started = await until("all nodes run", busy)
            demo.send_signal(number)
            await gone("all processes", started)
            assert demo.wait() == code
            assert naming(directory) == []

    try:
        trio.run(main)
    finally:
        demo.kill()
        demo.wait()
    assert "Traceback" not in output.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--windows", "0"], "--windows"),
        (["--trainers", "-1"], "--trainers"),
        (["--wibble"], "--wibble"),
        (["--dir", "/dev/null/here"], "/dev/null/here"),
        (["--dir", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_a_demo_that_cannot_be_is_refused(words: list[str], said: str) -> None:
    ran = p2pd("demo", *words)
    assert ran.code in (1, 2)
    assert said in ran.lines[-1]
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_a_demo_wants_a_directory_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    ran = p2pd("demo", "--dir", tmp_path)
    assert ran.code == 2
    (line,) = ran.lines
    assert f"{tmp_path}: exists and is not empty" in line
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
