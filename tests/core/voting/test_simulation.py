"""Whole heights of real machines, over many seeds."""

import pytest

from tests.core.voting.liar import Plan
from tests.core.voting.making import E
from tests.core.voting.simulation import Simulation

SIZES = [(1, 1), (3, 2), (4, 3), (5, 4), (7, 5)]


@pytest.mark.parametrize(("count", "quorum"), SIZES)
def test_i01_all_decide_one_value_in_round_0_on_a_good_network(count: int, quorum: int) -> None:
    for seed in range(5):
        run = Simulation(seed, Plan(count=count, quorum=quorum, calm_s=0.0, closing_s=0.3)).run()
        run.check()
        assert {certificate.round for certificate in run.certificates} == {0}
        assert run.values != {E}


SCENARIOS = {
    "one crash": Plan(count=3, quorum=2, crashes=1),
    "a crash and a restart": Plan(count=3, quorum=2, crashes=1, restarts=1),
    "restarts beside a crash": Plan(count=4, quorum=3, crashes=1, restarts=2, rejects=0.3),
    "a silent liar": Plan(count=4, quorum=3, liar="silent", rejects=0.2),
    "a liar that votes nil at once": Plan(count=4, quorum=3, liar="nil"),
    "a liar that names what nobody can fetch": Plan(count=4, quorum=3, liar="gone"),
    "a liar that claims quorums": Plan(count=4, quorum=3, liar="bad-pol", rejects=0.5),
    "random votes and justs": Plan(count=4, quorum=3, liar="chaos", rejects=0.2),
    "a validator joins late": Plan(count=4, quorum=3, calm_s=40.0, isolated_s=60.0),
    "random votes, and one joins late": Plan(
        count=4, quorum=3, liar="chaos", rejects=0.3, isolated_s=40.0
    ),
    "random votes and a restart": Plan(count=4, quorum=3, liar="chaos", restarts=1),
    "unequal weights and random votes": Plan(
        count=4, quorum=4, weights=(2, 1, 1, 1), liar="chaos", rejects=0.2
    ),
    "seven, random votes and a restart": Plan(count=7, quorum=5, liar="chaos", restarts=1),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_i01_every_height_ends_in_one_decision_despite(name: str) -> None:
    for seed in range(20):
        Simulation(seed, SCENARIOS[name]).run().check()


def test_i02_a_height_ends_soon_after_an_outage_of_many_rounds() -> None:
    highest = 0
    for seed in range(12):
        plan = Plan(
            count=3,
            quorum=2,
            calm_s=260.0,
            proposals_lost=True,
            late_crash=True,
            loss=0.0,
            patience_s=120.0,
        )
        run = Simulation(seed, plan).run()
        run.check()
        highest = max(highest, *(certificate.round for certificate in run.certificates))
    assert highest >= 13


def test_random_votes_are_found_out() -> None:
    for seed in range(10):
        run = Simulation(seed, Plan(count=4, quorum=3, liar="chaos")).run()
        run.check()
        assert len(run.accused()) == 1


@pytest.mark.parametrize(("count", "quorum"), [(1, 1), (3, 2), (4, 3), (7, 5)])
def test_checks_of_half_a_minute_end_in_a_real_decision(count: int, quorum: int) -> None:
    for seed in range(10):
        plan = Plan(count=count, quorum=quorum, calm_s=0.0, loss=0.0, check_s=(30.0, 36.0))
        run = Simulation(seed, plan).run()
        run.check()
        assert run.values != {E}


def test_a_run_is_the_same_again_for_the_same_seed() -> None:
    plan = Plan(count=4, quorum=3, liar="chaos", restarts=1, rejects=0.2)
    first, second = Simulation(11, plan).run(), Simulation(11, plan).run()
    assert first.certificates == second.certificates
    assert first.now_s == second.now_s
