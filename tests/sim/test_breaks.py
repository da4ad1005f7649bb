"""Each defence, switched off, lets an attack through that the checkers see; with it, the same liars change nothing.

The seeds are some in which the attack comes about early; `make fleet` searches a hundred for each.
"""

from dataclasses import replace

import pytest

from p2pd.sim.breaks import ATTACKS, Break
from p2pd.sim.faults import FaultSet
from p2pd.sim.shape import FleetShape
from p2pd.sim.suite import run_seed

CASES = [
    (Break.LOCK, 12, 2, "I1", "left its lock"),
    (Break.COUNTING, 5, 2, "I2", "prevotes of weight 2 of 3"),
    (Break.JUDGEMENT, 3, 1, "liveness", "no end"),
    (Break.LEASE, 0, 2, "I7", "claims more than its lease"),
    (Break.REPLAY, 2, 3, "I3", "signed for height 2"),
    (Break.ARRIVAL, 2, 2, "I6", "to other bits"),
    (Break.DURABLE, 1, 2, "crash", "another node votes with this key"),
    (Break.EARLY, 0, 2, "window", "while every window was open"),
    (Break.SIGNATURES, 1, 1, "I3", "its author did not sign it"),
    (Break.TERM, 1, 2, "I10", "contradicts another"),
    (Break.EVIDENCE, 1, 8, "I1", "has not been named"),
]


@pytest.mark.parametrize(
    ("broken", "seed", "windows", "invariant", "what"),
    CASES,
    ids=[case[0].value for case in CASES],
)
def test_without_its_defence_an_attack_is_seen_and_with_it_nothing_happens(
    broken: Break, seed: int, windows: int, invariant: str, what: str
) -> None:
    shape = FleetShape(windows=windows, faults=FaultSet.NONE).attacked(broken)
    found = run_seed(shape, seed).violations
    assert any(one.invariant == invariant and what in one.what for one in found)
    assert run_seed(replace(shape, broken=None), seed).violations == ()


def test_there_is_an_attack_for_each_defence() -> None:
    assert set(ATTACKS) == set(Break)
