from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
    get_worker_info,
)

from p2pd.errors import WorkloadError
from p2pd.workload.contract import Lease
from p2pd.workload.loaders import Samples, samples_of


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return index * 10


class Noisy(Numbers):
    """Draws from the chance of its process, as augmentations do."""

    def __getitem__(self, index: int) -> int:
        return int(torch.randint(10**9, ()))


class Workers(Numbers):
    """Says which process it is in."""

    def __getitem__(self, index: int) -> int:
        info = get_worker_info()
        return 0 if info is None else info.seed - info.id


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(20)


class Backwards:
    """A batch sampler that is told what to give."""

    def __init__(self, foreign: int | None = None) -> None:
        self._places: list[int] = []
        self._foreign = foreign

    def set_lease(self, lease: Lease) -> None:
        self._places = [*lease.samples] if self._foreign is None else [self._foreign]

    def __iter__(self) -> Iterator[list[int]]:
        places = self._places[::-1]
        yield from (places[:1], places[1:])


def lease(places: list[int], seed: int = 1) -> Lease:
    return Lease(places, 0, seed, lambda: None)


def loaded(samples: Samples, work: Lease) -> list[list[int]]:
    return [batch.content.tolist() for batch in samples.load(samples.plan(work), work.seed)]


def negative(items: list[int]) -> torch.Tensor:
    return torch.tensor([-item for item in items])


def test_a_lease_is_batched_as_the_user_batches_and_keeps_its_last_samples() -> None:
    loader = DataLoader(Numbers(), batch_size=4, drop_last=True, collate_fn=negative)
    samples = samples_of(loader, "train_loader")
    work = lease([3, 5, 7, 11, 13, 17])
    assert loaded(samples, work) == [[-30, -50, -70, -110], [-130, -170]]
    assert [batch.samples for batch in samples.load(samples.plan(work), 1)] == [4, 2]


def test_places_are_loaded_in_their_order_and_by_any_size() -> None:
    samples = samples_of(DataLoader(Numbers(), batch_size=20, shuffle=True), "valid_loader")
    assert samples.in_order([4, 2, 9]) == [[4, 2, 9]]
    assert samples.in_order([4, 2, 9], 1) == [[4], [2], [9]]


def test_a_sampler_over_a_part_of_the_data_limits_what_is_leased() -> None:
    loader = DataLoader(Numbers(), batch_size=2, sampler=SubsetRandomSampler([8, 6, 4]))
    samples = samples_of(loader, "train_loader")
    assert len(samples) == 3
    assert sorted(loaded(samples, lease([0, 2]))[0]) == [40, 80]


def test_a_plain_batch_sampler_is_taken_apart() -> None:
    batches = BatchSampler(SequentialSampler(Numbers()), batch_size=2, drop_last=True)
    samples = samples_of(DataLoader(Numbers(), batch_sampler=batches), "train_loader")
    assert loaded(samples, lease([1, 4, 5])) == [[10, 40], [50]]


def test_a_batch_sampler_of_ones_own_is_told_the_lease() -> None:
    samples = samples_of(DataLoader(Numbers(), batch_sampler=Backwards()), "train_loader")
    assert loaded(samples, lease([3, 7, 5])) == [[50], [70, 30]]
    strange = samples_of(DataLoader(Numbers(), batch_sampler=Backwards(foreign=2)), "train_loader")
    with pytest.raises(WorkloadError, match="Backwards gave samples that are not leased"):
        strange.plan(lease([3, 7, 5]))


def test_without_automatic_batches_each_item_is_one() -> None:
    samples = samples_of(DataLoader(Numbers(), batch_size=None, shuffle=True), "train_loader")
    found = list(samples.load(samples.plan(lease([1, 2])), 1))
    assert sorted(batch.content for batch in found) == [10, 20]
    assert [batch.samples for batch in found] == [1, 1]


@pytest.mark.parametrize("keep", [False, True])
def test_worker_processes_draw_by_the_seed_of_the_lease_alone(keep: bool) -> None:
    loader = DataLoader(Noisy(), batch_size=2, num_workers=2, persistent_workers=keep)
    samples = samples_of(loader, "train_loader")
    first, other, again = (loaded(samples, lease([0, 1, 2, 3], seed)) for seed in (1, 2, 1))
    assert first == again
    assert first != other


def test_persistent_workers_stay_from_lease_to_lease() -> None:
    loader = DataLoader(Workers(), batch_size=4, num_workers=1, persistent_workers=True)
    samples = samples_of(loader, "train_loader")
    first, other = (loaded(samples, lease([0, 1], seed)) for seed in (1, 2))
    assert first == other  # a new process would have been given another seed
    assert first[0][0] > 0


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(Stream(), batch_size=2), "IterableDataset, of which no single samples"),
        (DataLoader(Numbers(), batch_sampler=[[1, 2]]), r"list: give it set_lease\(lease\)"),
        (DataLoader(Numbers(), sampler=SubsetRandomSampler([])), "is empty"),
    ],
)
def test_a_loader_that_cannot_be_leased_is_refused_with_advice(
    loader: DataLoader[int], message: str
) -> None:
    with pytest.raises(WorkloadError, match=f"train_loader .*{message}"):
        samples_of(loader, "train_loader")
