from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from p2pd.errors import WorkloadError
from p2pd.workload.loaders import samples_of


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return index * 10


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(20)


def batches(loader: DataLoader[int]) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def negative(items: list[int]) -> torch.Tensor:
    return torch.tensor([-item for item in items])


def test_a_lease_is_batched_as_the_user_batches_and_keeps_its_last_samples() -> None:
    loader = DataLoader(Numbers(), batch_size=4, drop_last=True, collate_fn=negative)
    samples = samples_of(loader, "train_loader")
    lease = samples.select([3, 5, 7, 11, 13, 17], 1)
    assert batches(lease) == [[-30, -50, -70, -110], [-130, -170]]
    assert list(samples.sizes(6)) == [4, 2]


def test_a_shuffled_loader_shuffles_the_lease_by_the_seed_alone() -> None:
    samples = samples_of(DataLoader(Numbers(), batch_size=20, shuffle=True), "train_loader")
    first, again, other = (batches(samples.select(range(20), seed))[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other) == [index * 10 for index in range(20)]


def test_without_a_seed_samples_come_in_their_order() -> None:
    samples = samples_of(DataLoader(Numbers(), batch_size=20, shuffle=True), "valid_loader")
    assert batches(samples.select([4, 2, 9], None)) == [[40, 20, 90]]


def test_a_sampler_over_a_part_of_the_data_limits_what_is_leased() -> None:
    loader = DataLoader(Numbers(), batch_size=2, sampler=SubsetRandomSampler([8, 6, 4]))
    samples = samples_of(loader, "train_loader")
    assert len(samples) == 3
    assert batches(samples.select([0, 2], None)) == [[80, 40]]


def test_worker_processes_of_the_user_are_kept() -> None:
    loader = DataLoader(Numbers(), batch_size=2, num_workers=1, prefetch_factor=3)
    lease = samples_of(loader, "train_loader").select([1], 1)
    assert (lease.num_workers, lease.prefetch_factor) == (1, 3)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(Stream(), batch_size=2), "IterableDataset: give a map-style dataset"),
        (DataLoader(Numbers(), batch_size=None), "has no batch_size"),
        (
            DataLoader(
                Numbers(),
                batch_sampler=BatchSampler(
                    SequentialSampler(Numbers()), batch_size=2, drop_last=False
                ),
            ),
            "has no batch_size",
        ),
        (
            DataLoader(Numbers(), sampler=WeightedRandomSampler([1.0] * 20, 20)),
            "draws by WeightedRandomSampler",
        ),
        (
            DataLoader(Numbers(), sampler=RandomSampler(Numbers(), replacement=True)),
            "draws by RandomSampler",
        ),
        (DataLoader(Numbers(), sampler=SubsetRandomSampler([])), "is empty"),
    ],
)
def test_a_loader_that_cannot_be_leased_is_refused_with_advice(
    loader: DataLoader[int], message: str
) -> None:
    with pytest.raises(WorkloadError, match=f"train_loader .*{message}"):
        samples_of(loader, "train_loader")
