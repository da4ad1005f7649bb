"""A user's map-style loader, rebuilt over chosen samples, with all else as the user set it.

Pipeline `indexed`: the samples are those that the loader's sampler draws from, in a fixed order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)

from p2pd.errors import WorkloadError


@dataclass(frozen=True, slots=True)
class Samples:
    """What a loader of the user's draws from: its sample n is number scope[n] of its dataset."""

    loader: DataLoader[Any]
    scope: Sequence[int]
    shuffled: bool
    batch: int

    def __len__(self) -> int:
        return len(self.scope)

    def select(self, places: Sequence[int], shuffle_seed: int | None) -> DataLoader[Any]:
        """A loader over these samples, each once, in their order unless there is a seed."""
        generator = torch.Generator()
        if shuffle_seed is not None:
            generator.manual_seed(shuffle_seed)
        user = self.loader
        return DataLoader(
            Subset(user.dataset, [self.scope[place] for place in places]),
            batch_size=self.batch,
            shuffle=self.shuffled and shuffle_seed is not None,
            generator=generator,
            num_workers=user.num_workers,
            collate_fn=user.collate_fn,
            pin_memory=user.pin_memory,
            drop_last=False,
            timeout=user.timeout,
            worker_init_fn=user.worker_init_fn,
            multiprocessing_context=user.multiprocessing_context,
            prefetch_factor=user.prefetch_factor,
        )

    def sizes(self, count: int) -> Iterator[int]:
        """How many samples each batch of select holds."""
        for start in range(0, count, self.batch):
            yield min(self.batch, count - start)


def samples_of(loader: DataLoader[Any], name: str) -> Samples:
    """What a loader draws from.

    Raises:
        WorkloadError: it cannot be rebuilt over chosen samples; the message says what to do.
    """
    if isinstance(loader.dataset, IterableDataset):
        raise WorkloadError(
            f"{name} streams an IterableDataset: give a map-style dataset (__getitem__ and"
            " __len__), or subclass p2pd.Workload"
        )
    if type(loader.batch_sampler) is not BatchSampler or loader.batch_size is None:
        raise WorkloadError(
            f"{name} has no batch_size of its own: give batch_size instead of a batch_sampler,"
            " or subclass p2pd.Workload"
        )
    scope, shuffled = _scope(loader, name)
    if not scope:
        raise WorkloadError(f"{name} is empty: give it samples")
    return Samples(loader, scope, shuffled, loader.batch_size)


def _scope(loader: DataLoader[Any], name: str) -> tuple[Sequence[int], bool]:
    sampler = loader.sampler
    everything = range(len(loader.dataset))  # type: ignore[arg-type]  # map-style, as checked
    match sampler:
        case SequentialSampler():
            return everything, False
        case RandomSampler() if not sampler.replacement and len(sampler) == len(everything):
            return everything, True
        case SubsetRandomSampler():
            return tuple(sampler.indices), True
        case DistributedSampler():
            return everything, sampler.shuffle
        case _:
            raise WorkloadError(
                f"{name} draws by {type(sampler).__name__}, which cannot be limited to a lease:"
                " use shuffle=True or a SubsetRandomSampler, or subclass p2pd.Workload"
            )
