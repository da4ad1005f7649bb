"""Each defence, switched off, lets an attack through that the checkers see; with it, the same liars change nothing.

`make breaks` searches a hundred fleets for each, under all faults.
"""

from dataclasses import replace

import pytest

from p2pd.sim.breaks import ATTACKS, Break
from p2pd.sim.faults import FaultSet
from p2pd.sim.shape import FleetShape
from p2pd.sim.suite import run_seed

CASES = [
    (Break.LOCK, 3, "I1", "left its lock"),
    (Break.COUNTING, 3, "I2", "prevotes of weight 2 of 3"),
    (Break.JUDGEMENT, 1, "liveness", "no "),
    (Break.LEASE, 2, "I7", "claims more than its lease"),
    (Break.REPLAY, 3, "I3", "signed for height"),
    (Break.ARRIVAL, 4, "I6", "to other bits"),
    (Break.DURABLE, 3, "I10", "that it has not stored"),
    (Break.EARLY, 2, "window", "while every window was open"),
    (Break.SIGNATURES, 1, "I3", "its author did not sign it"),
    (Break.TERM, 2, "I10", "contradicts another"),
    (Break.EVIDENCE, 8, "I1", "has not been named"),
]
SEEDS = range(40)
"""In so many fleets, small ones and without other faults, each attack comes about: mostly in one of the first few."""


@pytest.mark.parametrize(
    ("broken", "windows", "invariant", "what"), CASES, ids=[case[0].value for case in CASES]
)
def test_without_its_defence_an_attack_is_seen_and_with_it_nothing_happens(
    broken: Break, windows: int, invariant: str, what: str
) -> None:
    shape = FleetShape(windows=windows, faults=FaultSet.NONE).attacked(broken)
    seed = next(
        seed
        for seed in SEEDS
        if any(
            found.invariant == invariant and what in found.what
            for found in run_seed(shape, seed).violations
        )
    )
    assert run_seed(replace(shape, broken=None), seed).violations == ()


def test_there_is_an_attack_for_each_defence() -> None:
    assert set(ATTACKS) == set(Break)
