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
    (Break.LOCK, 1, 7, "I1", "left its lock"),
    (Break.COUNTING, 3, 0, "I2", "prevotes of weight 2 of 3"),
    (Break.JUDGEMENT, 1, 3, "liveness", "no "),
    (Break.LEASE, 1, 0, "I7", "claims more than its lease"),
    (Break.REPLAY, 2, 2, "I3", "signed for height"),
    (Break.ARRIVAL, 1, 7, "I6", "to other bits"),
    (Break.DURABLE, 1, 0, "I10", "that it has not stored"),
    (Break.EARLY, 1, 0, "window", "while every window was open"),
    (Break.SIGNATURES, 1, 1, "I3", "its author did not sign it"),
    (Break.TERM, 1, 0, "crash", "another node votes with this key"),
    (Break.EVIDENCE, 8, 0, "I1", "has not been named"),
]
"""With the windows that it takes and a seed in which it happens."""
SEEDS_MOST = 40
"""In so many fleets each attack comes about, small ones without other faults, should that seed no longer show it."""


@pytest.mark.parametrize(
    ("broken", "windows", "kept", "invariant", "what"), CASES, ids=[case[0].value for case in CASES]
)
def test_without_its_defence_an_attack_is_seen_and_with_it_nothing_happens(
    broken: Break, windows: int, kept: int, invariant: str, what: str
) -> None:
    shape = FleetShape(windows=windows, faults=FaultSet.NONE).attacked(broken)
    seed = next(
        seed
        for seed in range(kept, kept + SEEDS_MOST)
        if any(
            found.invariant == invariant and what in found.what
            for found in run_seed(shape, seed).violations
        )
    )
    assert run_seed(replace(shape, broken=None), seed).violations == ()


def test_there_is_an_attack_for_each_defence() -> None:
    assert set(ATTACKS) == set(Break)
