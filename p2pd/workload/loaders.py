"""A user's map-style loader, made to load chosen samples, with all else as the user set it.

What is loaded is planned first: the plan of a lease is a list of batches, each a list of indices into
the dataset. It follows from the lease alone. Pipeline `indexed`.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch
from p2pd.workload.contract import Lease
from p2pd.workload.devices.ranks import Ranks
from p2pd.workload.devices.solo import ALONE
from p2pd.workload.feeds import KeptFeed, Plan, feed
from p2pd.workload.orders import Leasable, Order, order_of, require_leased
from p2pd.workload.seeding import seed_all, seed_of


class Samples:
    """What a loader of the user's draws from: its sample n is number scope[n] of its dataset."""

    def __init__(
        self, loader: DataLoader[Any], scope: Sequence[int], order: Order, size: int
    ) -> None:
        self._loader = loader
        self._scope = scope
        self._order = order
        self._size = size
        self._kept = KeptFeed(loader) if loader.persistent_workers else None

    def __len__(self) -> int:
        return len(self._scope)

    def plan(self, lease: Lease) -> Plan:
        """The batches of a lease, drawn as the user's sampler draws."""
        indices = [self._scope[place] for place in lease.samples]
        batches = self._loader.batch_sampler
        if isinstance(batches, Leasable):
            batches.set_lease(lease)
            plan = [list(batch) for batch in batches]
            require_leased([index for batch in plan for index in batch], indices, batches)
            return [batch for batch in plan if batch]
        return _batched(self._order(indices, lease), self._size)

    def leased(self, lease: Lease) -> Iterator[Batch]:
        """What this worker trains on.

        Raises:
            WorkloadError: another worker would train on other samples.
        """
        plan = self.plan(lease)
        drawn = [float(crc32(repr(plan).encode()))]
        if lease.ranks.told(drawn) != drawn:
            raise WorkloadError(
                "the sampler draws something else in each worker: have it draw from torch's, Python's"
                " or numpy's generators, which are seeded for each lease, or give it set_lease(lease)"
            )
        seed = seed_of(lease.seed, lease.ranks.rank)
        seed_all(seed)
        return self.load(plan, seed, lease.ranks)

    def in_order(self, places: Sequence[int], size: int | None = None) -> Plan:
        """Batches of these samples as they come, of the user's size or another."""
        return _batched([self._scope[place] for place in places], size or self._size)

    def load(self, plan: Plan, seed: int, ranks: Ranks = ALONE) -> Iterator[Batch]:
        """The batches of a plan, or one worker's parts of them; the seed is for what worker processes draw."""
        parts = [[batch[place] for place in ranks.part(len(batch))] for batch in plan]
        mine = [part for part in parts if part]
        loaded = iter(self._kept.load(mine, seed) if self._kept else feed(self._loader, mine, seed))
        for part, batch in zip(parts, plan, strict=True):
            yield Batch(next(loaded) if part else None, len(part), len(batch))


def samples_of(loader: DataLoader[Any], name: str) -> Samples:
    """What a loader draws from.

    Raises:
        WorkloadError: it cannot be made to load chosen samples; the message says what to do.
    """
    if isinstance(loader.dataset, IterableDataset):
        raise WorkloadError(
            f"{name} streams an IterableDataset, of which no single samples can be asked for: give"
            " a map-style dataset (list(stream) is one), or subclass p2pd.Workload"
        )
    everything = range(len(loader.dataset))  # type: ignore[arg-type]  # map-style, as checked
    sampler, size = _drawing(loader, name)
    scope, order = order_of(sampler, everything, name)
    if not scope:
        raise WorkloadError(f"{name} is empty: give it samples")
    return Samples(loader, scope, order, size)


def _drawing(loader: DataLoader[Any], name: str) -> tuple[object, int]:
    """The sampler, and how many samples make a batch."""
    batches = loader.batch_sampler
    if batches is None:  # what the dataset gives for one index is a batch, and counts as one sample
        return loader.sampler, 1
    if type(batches) is BatchSampler:
        return batches.sampler, batches.batch_size
    if isinstance(batches, Leasable):
        return loader.sampler, 1
    raise WorkloadError(
        f"{name} has a batch_sampler of its own, {type(batches).__name__}: give it"
        " set_lease(lease), after which it yields batches of leased samples, or use batch_size"
    )


def _batched(indices: Sequence[int], size: int) -> Plan:
    return [list(indices[start : start + size]) for start in range(0, len(indices), size)]
