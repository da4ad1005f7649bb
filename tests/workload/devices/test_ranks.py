import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.workload.devices.ranks import parts


@given(st.integers(1, 200), st.integers(1, 20))
def test_each_sample_of_a_batch_goes_to_one_worker_in_order(count: int, ranks: int) -> None:
    found = parts(count, ranks)
    assert len(found) == ranks
    assert [place for part in found for place in part] == list(range(count))


@given(st.integers(2, 200), st.integers(1, 20))
def test_nobody_gets_a_single_sample_and_the_parts_are_even(count: int, ranks: int) -> None:
    sizes = [len(part) for part in parts(count, ranks)]
    assert sizes[0] > 0
    assert 1 not in sizes
    busy = [size for size in sizes if size]
    assert max(busy) - min(busy) <= 1
    assert len(busy) == min(ranks, count // 2)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_batch_of_one_is_the_main_workers(ranks: int) -> None:
    assert [len(part) for part in parts(1, ranks)] == [1] + [0] * (ranks - 1)
