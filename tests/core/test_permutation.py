import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.permutation import shard_at

SEED = bytes(range(32))


def order(shards: int, seed: bytes = SEED, epoch: int = 0) -> list[int]:
    return [shard_at(seed, epoch, place, shards) for place in range(shards)]


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000])
def test_i07_every_microshard_has_exactly_one_place(shards: int) -> None:
    assert sorted(order(shards)) == list(range(shards))


@given(st.integers(1, 300), st.binary(min_size=32, max_size=32), st.integers(0, 2**63))
def test_i07_it_is_a_permutation_for_any_seed_and_epoch(
    shards: int, seed: bytes, epoch: int
) -> None:
    assert sorted(order(shards, seed, epoch)) == list(range(shards))


@pytest.mark.parametrize("shards", [10**12, 2**40, 2**40 + 1, 10**9 + 7])
def test_a_data_set_of_any_size_costs_nothing_until_it_is_dealt(shards: int) -> None:
    places = [*range(300), *range(shards - 300, shards), *range(shards // 2, shards // 2 + 300)]
    found = [shard_at(SEED, 3, place, shards) for place in places]
    assert len(set(found)) == len(places)
    assert all(0 <= shard < shards for shard in found)
    # Spread over the whole range, and not in the order of the places.
    assert max(found) > 0.9 * shards
    assert min(found) < 0.1 * shards
    assert found != sorted(found)


def test_each_epoch_and_each_seed_has_an_order_of_its_own() -> None:
    orders = [order(1000), order(1000, epoch=1), order(1000, epoch=2), order(1000, bytes(32))]
    for one in orders:
        for other in orders:
            same = sum(a == b for a, b in zip(one, other, strict=True))
            assert same == 1000 if one is other else same < 20


def test_the_order_is_the_same_on_every_machine() -> None:
    assert order(10) == [0, 5, 2, 7, 8, 1, 6, 3, 4, 9]


@pytest.mark.parametrize("place", [-1, 10, 11])
def test_there_is_no_place_beyond_the_last_one(place: int) -> None:
    with pytest.raises(ValueError, match=r"outside of 0\.\.9"):
        shard_at(SEED, 0, place, 10)
