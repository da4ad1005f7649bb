"""In which order the samples of a lease are drawn: as the user's sampler draws, from the lease alone."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import torch
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from p2pd.errors import WorkloadError
from p2pd.workload.contract import Lease

Order = Callable[[Sequence[int], Lease], Sequence[int]]
"""Of the leased indices into the dataset; no more than these, and each of them one of these."""
PASSES_MOST = 2
"""So many times the dataset's size is drawn from a sampler of the user's to find what is leased: it may be endless."""


@runtime_checkable
class Leasable(Protocol):
    """A dataset, sampler or batch sampler of the user's that gives what it is told to."""

    def set_lease(self, lease: Lease) -> None:
        """What is iterated over next are the samples of this lease, each once, in any order."""


def order_of(sampler: object, everything: range, name: str) -> tuple[Sequence[int], Order]:
    """What a sampler draws from, and how.

    Raises:
        WorkloadError: it cannot be limited to a lease.
    """
    match sampler:
        case SequentialSampler() if type(sampler) is SequentialSampler:
            return everything, _as_given
        case RandomSampler() if type(sampler) is RandomSampler:
            uniform = _weighted(torch.ones(1).expand(len(everything)), True)
            return everything, uniform if sampler.replacement else _shuffled
        case SubsetRandomSampler() if type(sampler) is SubsetRandomSampler:
            return tuple(sampler.indices), _shuffled
        case DistributedSampler() if type(sampler) is DistributedSampler:
            return everything, _shuffled if sampler.shuffle else _as_given
        case WeightedRandomSampler() if type(sampler) is WeightedRandomSampler:
            return everything, _weighted(sampler.weights, sampler.replacement)
        case Leasable():
            return everything, lambda indices, lease: asked(sampler, indices, lease)
        case Iterable():
            most = PASSES_MOST * len(everything)
            return everything, lambda indices, _: _found(sampler, indices, most)
        case _:
            raise WorkloadError(f"{name} has a sampler that cannot be iterated over: give another")


def asked(source: Any, indices: Collection[int], lease: Lease) -> list[int]:  # noqa: ANN401
    """What a sampler with set_lease draws for a lease.

    Raises:
        WorkloadError: something else than is leased.
    """
    source.set_lease(lease)
    drawn = list(islice(source, len(indices) + 1))
    require_leased(drawn, indices, source)
    return drawn


def require_leased(drawn: Collection[int], indices: Collection[int], source: object) -> None:
    name = type(source).__name__
    if not drawn:
        raise WorkloadError(f"{name} gave nothing after set_lease: give the samples of the lease")
    if len(drawn) > len(indices) or not set(indices).issuperset(drawn):
        raise WorkloadError(
            f"{name} gave samples that are not leased: after set_lease(lease) give those of"
            " lease.samples, each once"
        )


def _as_given(indices: Sequence[int], lease: Lease) -> Sequence[int]:
    del lease
    return indices


def _shuffled(indices: Sequence[int], lease: Lease) -> Sequence[int]:
    chance = torch.Generator().manual_seed(lease.seed)
    return [indices[place] for place in torch.randperm(len(indices), generator=chance).tolist()]


def _weighted(weights: torch.Tensor, replacement: bool) -> Order:
    """As many as are leased, or fewer where each may come once only and some have no weight."""

    def order(indices: Sequence[int], lease: Lease) -> Sequence[int]:
        of_lease = weights[list(indices)]
        most = len(indices) if replacement else int((of_lease > 0).sum())
        if not bool((of_lease > 0).any()):
            raise WorkloadError("no sample of the lease has a weight: give each a small one")
        chance = torch.Generator().manual_seed(lease.seed)
        drawn = torch.multinomial(of_lease.double(), most, replacement, generator=chance)
        return [indices[place] for place in drawn.tolist()]

    return order


def _found(sampler: Iterable[int], indices: Sequence[int], most: int) -> list[int]:
    """What a sampler of the user's draws of the leased samples, in its order."""
    wanted = set(indices)
    drawn = (index for index in islice(sampler, most) if index in wanted)
    found = list(islice(drawn, len(indices)))
    if not found:
        raise WorkloadError(
            f"{type(sampler).__name__} draws none of the leased samples: give it set_lease(lease),"
            " or draw from the whole dataset"
        )
    return found
