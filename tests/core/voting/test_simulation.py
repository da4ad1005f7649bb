"""Whole heights of real machines, over many seeds."""

import pytest

from tests.core.voting.simulation import UNDECIDED, Plan, Simulation, value_of

SIZES = [(1, 1), (3, 2), (4, 3), (5, 4), (7, 5)]


@pytest.mark.parametrize(("count", "quorum"), SIZES)
def test_i01_all_decide_one_value_in_round_0_on_a_good_network(count: int, quorum: int) -> None:
    for seed in range(5):
        run = Simulation(seed, Plan(count=count, quorum=quorum, calm_s=0.0, closing_s=0.3)).run()
        run.check()
        assert {certificate.round for certificate in run.certificates} == {0}
        assert run.values != {value_of(UNDECIDED)}
