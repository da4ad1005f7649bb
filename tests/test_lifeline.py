"""Processes that must not outlive who started them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from p2pd.lifeline import ORPHANED

PARENT = """
import subprocess, sys
child = subprocess.Popen({command}, stdout=subprocess.PIPE)
child.stdout.readline()
print("started", flush=True)
child.wait()
"""
MODULE = "import time\nprint('here', flush=True)\nwhile True:\n    time.sleep(60)\n"
LOOKING = (
    "import os, signal, time; from p2pd.lifeline import look; "
    "look(os.getppid(), signal.SIGTERM); print('here', flush=True); time.sleep(60)"
)
KERNEL = "__import__('p2pd.lifeline').lifeline.tied('endless')"
THREAD = f"[sys.executable, '-c', {LOOKING!r}]"


@pytest.mark.parametrize("command", [KERNEL, THREAD])
def test_a_tied_process_ends_with_its_parent(tmp_path: Path, command: str) -> None:
    (tmp_path / "endless.py").write_text(MODULE)
    script = PARENT.format(command=command)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        said = parent.stdout.readline()
        parent.kill()
        # Standard error ends when nobody has it any more, the child included.
        assert parent.communicate(timeout=30) == (b"", b"")
    assert said == b"started\n"


def test_what_was_started_by_another_does_not_begin() -> None:
    command = [sys.executable, "-m", "p2pd.lifeline", str(os.getppid()), "this"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (ORPHANED, b"", b"")


TIED_OTHERWISE = {
    "p2pd/lifeline.py": "it is what ties",
    "p2pd/io/worker_child.py": "p2pd.workload.serve ends with its parent",
    "p2pd/io/math.py": "p2pd.tensors.serve does",
    "p2pd/daemon/processes.py": "p2pd.daemon.tied does; the nodes of fleet up are to stay",
}


def test_every_process_that_is_started_here_is_tied() -> None:
    root = Path(__file__).parents[1]
    starting = {
        path.relative_to(root).as_posix()
        for path in (root / "p2pd").rglob("*.py")
        if "sys.executable" in path.read_text(encoding="utf-8")
    }
    assert starting == set(TIED_OTHERWISE)
