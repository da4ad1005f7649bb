import pytest

from p2pd.core.votes import NO_ROUND, Step
from p2pd.core.voting.shelf import Shelf
from p2pd.core.voting.tally import Tally
from p2pd.errors import RemoteError
from tests.core.voting.making import A_CHOICES, B_CHOICES, FOUR, HEIGHT, SCOPE, A, prevote, proposal


def empty() -> tuple[Shelf, Tally]:
    tally = Tally(FOUR, HEIGHT)
    return Shelf(FOUR, SCOPE, tally), tally


def test_the_first_proposal_of_a_round_is_kept_and_a_different_one_contradicts_it() -> None:
    shelf, _ = empty()
    first, second = proposal(FOUR, 2, A_CHOICES), proposal(FOUR, 2, B_CHOICES)
    assert shelf.add(first) is None
    assert shelf.add(first) is None
    assert shelf.add(second) == first
    held = shelf.get(2)
    assert held is not None
    assert held.proposal == first


def test_the_quorum_that_a_proposal_brings_is_counted() -> None:
    shelf, tally = empty()
    quorum = tuple(prevote(FOUR, who, 1, A) for who in (0, 1, 2))
    shelf.add(proposal(FOUR, 2, A_CHOICES, 1, quorum))
    assert tally.quorums(1) == [A]
    assert tally.any_weight(Step.PREVOTE, 1) == 3


def test_a_malformed_proposal_is_neither_kept_nor_heard() -> None:
    shelf, tally = empty()
    short = tuple(prevote(FOUR, who, 1, A) for who in (0, 1))
    with pytest.raises(RemoteError):
        shelf.add(proposal(FOUR, 2, A_CHOICES, 1, short))
    assert shelf.rounds() == []
    assert tally.rounds_between(NO_ROUND, None) == []


def test_i09_of_rounds_far_ahead_a_proposer_keeps_its_two_highest() -> None:
    shelf, tally = empty()
    for round_ in (1, 5, 13, 17, 21, 9):
        shelf.add(proposal(FOUR, round_, A_CHOICES))
    assert shelf.rounds() == [1, 5, 17, 21]
    assert sorted(tally.rounds_between(NO_ROUND, None)) == [1, 5, 17, 21]
    shelf.add(proposal(FOUR, 12, A_CHOICES))
    assert shelf.rounds() == [1, 5, 12, 17, 21]


def test_a_dropped_proposal_no_longer_makes_its_round_loud() -> None:
    shelf, tally = empty()
    tally.add(prevote(FOUR, 0, 13, None))
    shelf.add(proposal(FOUR, 13, A_CHOICES))
    assert tally.loudest_round() == 13
    shelf.add(proposal(FOUR, 17, A_CHOICES))
    shelf.add(proposal(FOUR, 21, A_CHOICES))
    assert tally.loudest_round() == NO_ROUND
