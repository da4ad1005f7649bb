from random import Random

from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.artifact import held_chunks, holds
from p2pd.core.ids import PeerId
from p2pd.node.pieces import Pieces

ALICE, BOB, CAROL = (PeerId(name * 32) for name in (b"a", b"b", b"c"))


@given(st.integers(0, 40), st.sets(st.integers(0, 39)))
def test_a_bit_tells_of_each_chunk_whether_it_is_held(count: int, missing: set[int]) -> None:
    missing = {index for index in missing if index < count}
    held = held_chunks(count, missing)
    assert len(held) == -(-count // 8)
    assert {index for index in range(60) if holds(held, index)} == set(range(count)) - missing


def test_what_fewest_hold_is_taken_first() -> None:
    pieces = Pieces(range(6), Random(0))
    pieces.learn(ALICE, held_chunks(6, ()))
    pieces.learn(BOB, held_chunks(6, (2, 5)))
    pieces.learn(CAROL, held_chunks(6, (0, 2)))
    taken = [pieces.take(ALICE) for _ in range(6)]
    assert taken[0] == 2
    assert set(taken[1:3]) == {0, 5}
    assert set(taken[3:]) == {1, 3, 4}
    assert pieces.take(ALICE) is None


def test_nobody_is_asked_for_what_he_does_not_hold() -> None:
    pieces = Pieces(range(4), Random(0))
    pieces.learn(BOB, held_chunks(4, (0, 1, 3)))
    assert not pieces.known(ALICE)
    assert pieces.gives(BOB)
    assert pieces.take(BOB) == 2
    assert not pieces.gives(BOB)
    assert pieces.take(BOB) is None
    assert {pieces.take(ALICE) for _ in range(3)} == {0, 1, 3}


def test_equally_rare_chunks_are_taken_in_an_order_of_ones_own() -> None:
    orders = set()
    for seed in range(5):
        pieces = Pieces(range(20), Random(seed))
        pieces.learn(ALICE, held_chunks(20, ()))
        orders.add(tuple(pieces.take(ALICE) for _ in range(20)))
    assert len(orders) == 5


def test_what_did_not_come_is_asked_for_next() -> None:
    pieces = Pieces(range(5), Random(0))
    index = pieces.take(ALICE)
    assert index is not None
    pieces.put_back(index)
    assert pieces.take(BOB) == index
    assert len(pieces) == 4
