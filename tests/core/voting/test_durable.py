import pytest

from p2pd.core.encoding import encode
from p2pd.core.votes import Step
from p2pd.core.voting.durable import Backed, Memory, Position
from p2pd.errors import LocalError
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    FOUR,
    HEIGHT,
    SCOPE,
    A,
    B,
    precommit,
    prevote,
    proposal,
    scope_of,
)


def filled() -> Memory:
    memory = Memory(SCOPE)
    memory.position = Position(3, Step.PRECOMMIT, closed=True)
    memory.locked = Backed(A, 1, A_CHOICES, tuple(prevote(FOUR, who, 1, A) for who in (0, 1, 2)))
    memory.valid = Backed(B, 3, B_CHOICES, tuple(prevote(FOUR, who, 3, B) for who in (0, 1, 3)))
    memory.add_vote(prevote(FOUR, 1, 1, A))
    memory.add_vote(precommit(FOUR, 1, 1, A))
    memory.add_vote(prevote(FOUR, 1, 3, None))
    memory.add_proposal(proposal(FOUR, 1, A_CHOICES))
    return memory


def test_i10_what_is_stored_comes_back() -> None:
    memory = filled()
    again = Memory.load(SCOPE, memory.encode())
    assert again.encode() == memory.encode()
    assert (again.position, again.locked, again.valid) == (
        memory.position,
        memory.locked,
        memory.valid,
    )
    assert again.votes() == memory.votes()
    assert again.of_round(1) == [
        proposal(FOUR, 1, A_CHOICES),
        prevote(FOUR, 1, 1, A),
        precommit(FOUR, 1, 1, A),
    ]


def test_i10_a_second_message_of_one_type_and_round_is_a_bug() -> None:
    memory = filled()
    with pytest.raises(LocalError, match="a second prevote of round 1"):
        memory.add_vote(prevote(FOUR, 1, 1, B))
    with pytest.raises(LocalError, match="a second proposal of round 1"):
        memory.add_proposal(proposal(FOUR, 1, B_CHOICES))


def test_a_state_of_another_height_is_not_loaded() -> None:
    with pytest.raises(LocalError, match=f"of height {HEIGHT}"):
        Memory.load(scope_of(HEIGHT + 1), filled().encode())


def test_a_damaged_state_is_not_loaded() -> None:
    with pytest.raises(LocalError, match="damaged"):
        Memory.load(SCOPE, encode((SCOPE, 1, 2)))
