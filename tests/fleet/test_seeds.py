"""Seeds that found something once. Replay one: p2pd sim --seed N."""

from pathlib import Path

import pytest

from p2pd.sim.fleet import FleetShape, run_fleet

LINES = (Path(__file__).parent / "seeds.txt").read_text().splitlines()
CASES = [
    tuple(int(word) for word in line.split()[:4])
    for line in LINES
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("seed", "validators", "quorum", "windows"), CASES)
def test_a_seed_that_failed_once_does_not_fail_again(
    seed: int, validators: int, quorum: int, windows: int
) -> None:
    shape = FleetShape(validators=validators, quorum=quorum, windows=windows)
    assert run_fleet(seed, shape).checkers.violations == []
