import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from p2pd.errors import LocalError
from p2pd.sim import suite
from p2pd.sim.breaks import Break
from p2pd.sim.faults import FaultSet
from p2pd.sim.shape import FleetShape
from p2pd.sim.suite import SeedResult, run_seed, run_suite

SMALL = FleetShape(windows=1)
PROGRAM = """
from p2pd.sim.shape import FleetShape
from p2pd.sim.suite import run_seed
if __name__ == "__main__":
    print(run_seed(FleetShape(windows=1), 5).trace)
"""


def quiet(_: SeedResult) -> None:
    """Nobody watches."""


def test_one_seed_gives_one_trace_whatever_process_runs_it() -> None:
    here = run_seed(SMALL, 5).trace
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == here


def test_another_seed_gives_another_trace() -> None:
    assert run_seed(SMALL, 5).trace != run_seed(SMALL, 6).trace


def test_a_suite_reports_each_seed_in_order_and_sums_up() -> None:
    seen: list[SeedResult] = []
    result = run_suite(range(2), SMALL, seen.append)
    assert [one.seed for one in seen] == [0, 1]
    assert result.ok
    assert (result.seeds, result.windows, result.violations) == (2, 1, ())
    assert result.decisions == sum(one.decisions for one in seen) >= 2
    assert "found_after_seeds" not in result.to_json()


def test_i02_counting_visible_peers_is_found_within_a_few_seeds() -> None:
    result = run_suite(range(4), FleetShape(windows=10).attacked(Break.QUORUM), quiet)
    assert result.ok
    assert result.found_after_seeds is not None
    found = [one for one in result.violations if one.what.endswith("of weight 1 of 2")]
    assert {one.invariant for one in found} == {"I2"}
    assert {one.seed for one in found} == {result.found_after_seeds - 1}
    assert all(one.height > 0 for one in found)


def test_a_broken_rule_that_nobody_sees_is_no_success() -> None:
    calm = FleetShape(windows=1, faults=FaultSet.NONE).attacked(Break.QUORUM)
    result = run_suite(range(1), calm, quiet)
    assert not result.ok
    assert result.found_after_seeds is None


def test_every_reason_why_nodes_gave_up_is_named() -> None:
    inner: Any = BaseExceptionGroup("lane", [LocalError("merge mismatch at 3")])
    group: Any = BaseExceptionGroup("fleet", [inner, LocalError("seed 9: drive spins")])
    assert [str(error) for error in suite._leaves(group)] == [
        "merge mismatch at 3",
        "seed 9: drive spins",
    ]


ENDLESS = """
import os, signal, time
from p2pd.sim import suite
from p2pd.sim.shape import FleetShape


def run_seed(shape, seed):
    os.write(1, b"busy\\n")
    while True:
        time.monotonic()


suite.run_seed = run_seed
if __name__ == "__main__":
    os.cpu_count = lambda: 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests were started deaf
    suite.run_suite(range(4), FleetShape(), print)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_the_process_that_asked_for_the_seeds(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        said = [parent.stdout.readline() for _ in range(2)]
        parent.send_signal(number)
        # The pipes end when nobody has them any more, the workers included.
        _, complaints = parent.communicate(timeout=30)
    assert said == ["busy\n"] * 2, complaints
    assert "Process" not in complaints, "a worker has nothing to say of its end"
