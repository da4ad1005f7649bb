"""DataLoaders made of the user's own one, for batches that are given by their indices."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from p2pd.workload.seeding import seed_all

Plan = list[list[int]]
"""Batches, each of indices into a dataset."""
Wrap = Callable[[Callable[[Any], Any], bool], Callable[[Any], tuple[int, int, Any]]]
"""Of the user's collate_fn, and of whether batches are made of single samples."""
Drawn = tuple[int, int, int]
"""Turn, seed and index."""


def feed(user: DataLoader[Any], plan: Plan, seed: int) -> Iterable[Any]:
    """The batches of a plan, by worker processes of its own where the user has any."""
    return _rebuilt(user, user.dataset, plan, seed)


def stream(
    user: DataLoader[Any], dataset: Dataset[Any], seed: int, collate: Wrap
) -> Iterable[tuple[int, int, Any]]:
    """What a stream gives, each batch with its numbers of samples, as collate makes it.

    Worker processes are new each time: those that stay would not hear of the next lease.
    """
    made = collate(user.collate_fn, user.batch_size is not None)
    shared = _shared(user, seed) | {"collate_fn": made}
    return DataLoader(dataset, batch_size=user.batch_size, **shared)


class KeptFeed:
    """Keeps the worker processes from plan to plan, as persistent_workers says."""

    def __init__(self, user: DataLoader[Any]) -> None:
        self._turn = 0
        self._batches: list[list[Drawn]] = []
        self._loader = _rebuilt(user, _Reseeded(user.dataset), self._batches, 0)

    def load(self, plan: Plan, seed: int) -> Iterable[Any]:
        self._turn += 1
        # In place: the loader asks the same list anew each time that it is iterated over.
        self._batches[:] = [[(self._turn, seed, index) for index in batch] for batch in plan]
        return self._loader


@runtime_checkable
class _Batched(Protocol):
    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]: ...


class _Reseeded(Dataset[Any]):
    """Seeds a worker process that stays, as torch seeds a new one, when another plan begins."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self._dataset = dataset
        self._turn = 0

    def __getitem__(self, drawn: Drawn) -> Any:  # noqa: ANN401 - whatever the dataset gives
        return self._dataset[self._index(drawn)]

    def __getitems__(self, drawn: Sequence[Drawn]) -> Sequence[Any]:
        indices = [self._index(one) for one in drawn]
        if isinstance(self._dataset, _Batched):
            return self._dataset.__getitems__(indices)
        return [self._dataset[index] for index in indices]

    def _index(self, drawn: Drawn) -> int:
        turn, seed, index = drawn
        worker = get_worker_info()
        if turn != self._turn and worker is not None:
            seed_all((seed + worker.id) % 2**64)
        self._turn = turn
        return index


def _rebuilt(
    user: DataLoader[Any], dataset: Dataset[Any], batches: list[list[Any]], seed: int
) -> DataLoader[Any]:
    shared = _shared(user, seed) | {"persistent_workers": user.persistent_workers}
    if user.batch_sampler is None:
        return DataLoader(dataset, batch_size=None, sampler=_Flat(batches), **shared)
    return DataLoader(dataset, batch_sampler=batches, **shared)


def _shared(user: DataLoader[Any], seed: int) -> dict[str, Any]:
    return {
        "num_workers": user.num_workers,
        "collate_fn": user.collate_fn,
        "pin_memory": user.pin_memory,
        "timeout": user.timeout,
        "worker_init_fn": user.worker_init_fn,
        "multiprocessing_context": user.multiprocessing_context,
        "prefetch_factor": user.prefetch_factor,
        "generator": torch.Generator().manual_seed(seed),
    }


class _Flat:
    """The indices of all batches, for a dataset that gives a batch for each."""

    def __init__(self, batches: list[list[Any]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return (index for batch in self._batches for index in batch)
