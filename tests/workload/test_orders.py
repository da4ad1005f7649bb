from collections import Counter
from collections.abc import Iterator
from itertools import cycle

import pytest
import torch
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from p2pd.errors import WorkloadError
from p2pd.workload.contract import Lease
from p2pd.workload.orders import order_of

EVERYTHING = range(20)
LEASED = [3, 5, 8, 13]


class Odd(Sampler[int]):
    """Without end, as samplers for training by steps are."""

    def __iter__(self) -> Iterator[int]:
        yield from cycle(index for index in reversed(EVERYTHING) if index % 2)


class Told(Sampler[int]):
    def __init__(self, more: int = 0) -> None:
        self._given: list[int] = []
        self._more = more

    def set_lease(self, lease: Lease) -> None:
        self._given = [*lease.samples][::-1] + [0] * self._more

    def __iter__(self) -> Iterator[int]:
        return iter(self._given)


def drawn(sampler: object, indices: list[int] = LEASED, seed: int = 1) -> list[int]:
    _, order = order_of(sampler, EVERYTHING, "train_loader")
    return list(order(indices, Lease(LEASED, 0, seed, lambda: None)))


def test_in_sequence_they_come_as_they_are() -> None:
    assert drawn(SequentialSampler(EVERYTHING)) == LEASED
    assert drawn(DistributedSampler(EVERYTHING, 1, 0, shuffle=False)) == LEASED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sampler",
    [
        RandomSampler(EVERYTHING),
        RandomSampler(EVERYTHING, num_samples=5),
        SubsetRandomSampler(EVERYTHING),
        DistributedSampler(EVERYTHING, 1, 0),  # type: ignore[arg-type]
    ],
)
def test_a_shuffle_is_by_the_seed_alone(sampler: Sampler[int]) -> None:
    many = list(EVERYTHING)
    assert drawn(sampler, many) == drawn(sampler, many)
    assert drawn(sampler, many) != drawn(sampler, many, seed=2)
    assert sorted(drawn(sampler)) == LEASED


def test_weights_hold_within_the_lease() -> None:
    weights = torch.zeros(20)
    weights[3], weights[13], weights[7] = 1.0, 3.0, 1000.0
    given = weights.tolist()
    _, order = order_of(WeightedRandomSampler(given, 20), EVERYTHING, "train_loader")
    found = Counter(order(LEASED * 100, Lease(LEASED, 0, 1, lambda: None)))
    assert set(found) == {3, 13}
    assert sum(found.values()) == 400
    assert 2 < found[13] / found[3] < 4
    assert sorted(drawn(WeightedRandomSampler(given, 2, replacement=False))) == [3, 13]
    with pytest.raises(WorkloadError, match="no sample of the lease has a weight"):
        drawn(WeightedRandomSampler(given, 20), [1, 2])


def test_with_replacement_as_many_come_as_are_leased() -> None:
    found = drawn(RandomSampler(EVERYTHING, replacement=True), LEASED * 5)
    assert len(found) == 20
    assert set(found) <= set(LEASED)


def test_a_sampler_of_ones_own_gives_what_it_draws_of_the_lease() -> None:
    assert drawn(Odd()) == [13, 5, 3, 13]
    with pytest.raises(WorkloadError, match="Odd draws none of the leased samples"):
        drawn(Odd(), [2, 4])


def test_a_sampler_that_is_told_the_lease_gives_it() -> None:
    assert drawn(Told()) == LEASED[::-1]
    with pytest.raises(WorkloadError, match="Told gave samples that are not leased"):
        drawn(Told(more=1))
