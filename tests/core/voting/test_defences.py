"""What each rule is for: switched off, an attack succeeds that otherwise does not. (The lock: test_search.py.)"""

import pytest

from p2pd.core.votes import NO_ROUND, Vote
from p2pd.core.voting.events import (
    Accuse,
    Decided,
    Defence,
    Effect,
)
from p2pd.core.voting.evidence import check_evidence
from tests.core.voting.calm import Calm
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    A,
    B,
    Bench,
    precommit,
    precommitted,
    prevote,
    prevoted,
    proposal,
    sent_votes,
    unit_members,
)

THREE = unit_members(3, 2)
NOTHING: frozenset[Defence] = frozenset()


def decided(effects: list[Effect]) -> bool:
    return any(isinstance(effect, Decided) for effect in effects)


def amnesia(off: frozenset[Defence], just: int) -> tuple[bool, bool]:
    """Validator 2 precommits A for 0 and, as if it had not, prevotes B for 1. A fork? Is 2 named?"""
    lies = [
        prevote(THREE, 2, 0, A),
        precommit(THREE, 2, 0, A),
        prevote(THREE, 2, 1, B, just),
        precommit(THREE, 2, 1, B),
    ]
    first = Bench(THREE, 0, off=off)
    first.close()
    first.built(0, A_CHOICES)
    first.checked(A_CHOICES)
    one = decided(first.hear(*lies[:2]))

    second = Bench(THREE, 1, off=off)
    second.close()
    second.hear(lies[2])
    second.built(1, B_CHOICES)
    effects = second.checked(B_CHOICES) + second.hear(lies[3])
    watcher = Bench(THREE, None, off=off)
    accused = [effect for effect in watcher.hear(*lies) if isinstance(effect, Accuse)]
    assert all(check_evidence(THREE, each.evidence) == THREE.rows[2].peer for each in accused)
    return one and decided(effects), bool(accused)


def test_i01_without_the_counting_rule_a_fork_leaves_no_evidence() -> None:
    assert amnesia(frozenset({Defence.COUNTING}), 0) == (True, False)


def test_i01_with_the_counting_rule_a_claim_of_no_quorum_forks_nothing() -> None:
    assert amnesia(NOTHING, 0) == (False, False)


def test_i01_with_the_counting_rule_whoever_forks_is_named() -> None:
    assert amnesia(NOTHING, NO_ROUND) == (True, True)


def test_amnesia_needs_the_lie() -> None:
    """Validator 0 in the liar's place signs no such prevote."""
    honest = Bench(THREE, 2)
    honest.close()
    honest.hear(proposal(THREE, 0, A_CHOICES))
    honest.checked(A_CHOICES)
    assert sent_votes(honest.prevotes(0, A, 0)) == [precommitted(0, A)]
    honest.hear(proposal(THREE, 1, B_CHOICES))
    assert sent_votes(honest.checked(B_CHOICES)) == [prevoted(1, None)]


@pytest.mark.parametrize(
    ("off", "ends"), [(NOTHING, True), (frozenset({Defence.JUDGEMENT}), False)]
)
def test_without_the_judgement_rule_one_crash_halts_the_network(
    off: frozenset[Defence], ends: bool
) -> None:
    locked, rejecting = Bench(THREE, 0, off=off), Bench(THREE, 1, off=off)
    pair = Calm([locked, rejecting], [frozenset({A_CHOICES, B_CHOICES}), frozenset({B_CHOICES})])
    locked.close()
    locked.built(0, A_CHOICES)
    locked.checked(A_CHOICES)
    locked.prevotes(0, A, 2)
    assert locked.machine.view().locked == (A, 0)
    rejecting.close()
    pair.carry_out(1, rejecting.wait(1.0))
    pair.carry_out(1, rejecting.precommits(0, None, 2))
    pair.carry_out(0, locked.precommits(0, None, 2))
    assert (pair.run(until_round=25) is not None) is ends


@pytest.mark.parametrize(
    ("off", "sent"),
    [(NOTHING, []), (frozenset({Defence.EARLY}), [prevoted(0, A)])],
    ids=["held", "acted on"],
)
def test_an_early_proposal_is_held_until_ones_own_window_is_over(
    off: frozenset[Defence], sent: list[Vote]
) -> None:
    bench = Bench(THREE, 1, off=off)
    bench.hear(proposal(THREE, 0, A_CHOICES))
    assert sent_votes(bench.checked(A_CHOICES)) == sent
    if not sent:
        assert sent_votes(bench.close()) == [prevoted(0, A)]
