"""Fleets that failed once. Each line of seeds.txt is what `p2pd sim` is given to run one again."""

from pathlib import Path

import pytest

from tests.cli.commands import p2pd

LINES = (Path(__file__).parent / "seeds.txt").read_text().splitlines()
CASES = [line.partition("#")[0].strip() for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize("case", CASES)
def test_a_fleet_that_failed_once_does_not_fail_again(case: str) -> None:
    ran = p2pd("sim", *case.split())
    assert ran.code == 0, ran.err
