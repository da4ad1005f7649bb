"""A user's IterableDataset as what leases are trained on.

One with set_lease gives what it is told to. Any other is seeded anew for each lease and gives as many
samples as were leased: which ones is its own affair, and they may come again. Units: samples.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from p2pd.errors import WorkloadError
from p2pd.workload.batches import Batch, fingerprint
from p2pd.workload.contract import Lease
from p2pd.workload.devices.ranks import parts
from p2pd.workload.devices.solo import ALONE
from p2pd.workload.feeds import stream
from p2pd.workload.orders import Leasable
from p2pd.workload.pipelines import Indexed, Pipeline

EPOCH_SAMPLES = 2**30
"""Of a stream that does not know its length: the same on every node."""


class Flow:
    def __init__(self, loader: DataLoader[Any], name: str) -> None:
        """Raises WorkloadError: nobody knows how many samples there are to lease."""
        self._loader = loader
        self._dataset: Any = loader.dataset
        self._leasable = isinstance(self._dataset, Leasable)
        self._given: tuple[int, int] | None = None
        """Seed of the last lease, and the fingerprint of its samples."""
        if self._leasable and not isinstance(self._dataset, Sized):
            raise WorkloadError(
                f"{name}: {type(self._dataset).__name__} has set_lease but no __len__: give it one,"
                " the number of samples that leases are dealt from"
            )

    def __len__(self) -> int:
        return len(self._dataset) if isinstance(self._dataset, Sized) else EPOCH_SAMPLES

    def leased(self, lease: Lease) -> Iterator[Batch]:
        """
        Raises:
            WorkloadError: it gave nothing, or more than was leased, or the same as for another lease.
        """
        most, count, mark = len(lease.samples), 0, 0
        dataset = self._dataset
        if self._leasable:
            # It goes to worker processes.
            dataset.set_lease(replace(lease, pause=_unasked, ranks=ALONE))
        else:
            dataset = _First(dataset, most)
        counted = partial(_Counted, ranks=(lease.ranks.rank, lease.ranks.size))
        for samples, whole, content in stream(self._loader, dataset, lease.seed, counted):
            count += whole
            if count > most:
                break
            mark = fingerprint(content, mark)
            yield Batch(content, samples, whole)
        if not 0 < count <= most:
            raise WorkloadError(
                f"{type(self._dataset).__name__} gave {'more' if count else 'nothing'} of a lease of"
                f" {most} samples: give those of lease.samples, each once, shared out among workers"
            )
        if not self._leasable and mark:  # a worker may have no part in a lease
            self._require_other(lease.seed, mark)

    def _require_other(self, seed: int, mark: int) -> None:
        """A stream that starts over for each lease, and draws nothing, would train on its start for ever."""
        before, self._given = self._given, (seed, mark)
        if before is not None and before[0] != seed and before[1] == mark:
            raise WorkloadError(
                f"{type(self._dataset).__name__} gives the same samples for each lease: give it"
                " set_lease(lease), or have it draw from torch's, Python's or numpy's generators"
            )


class Reseeded(Pipeline):
    """What is said of a stream that is not told what to give."""

    def kind(self) -> str:
        return "generated"

    def descriptor(self) -> str:
        return "a stream, seeded anew for each lease: samples may repeat"


def flow_of(loader: DataLoader[Any]) -> Pipeline:
    """What a stream is as data, where its user does not say."""
    return Indexed() if isinstance(loader.dataset, Leasable) else Reseeded()


def _unasked() -> None:
    """In place of a pause: whoever loads samples is not asked whether to go on."""


class _First(IterableDataset[Any]):
    """The first samples of a stream, shared out among worker processes."""

    def __init__(self, dataset: IterableDataset[Any], samples: int) -> None:
        self._dataset = dataset
        self._samples = samples

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, of = (0, 1) if worker is None else (worker.id, worker.num_workers)
        share = self._samples // of + (number < self._samples % of)
        return islice(self._dataset, share)


class _Counted:
    """Says of a batch how many samples it was made of, and makes it of those that are this worker's."""

    def __init__(
        self, collate: Callable[[Any], Any], automatic: bool, ranks: tuple[int, int]
    ) -> None:
        self._collate = collate
        self._automatic = automatic
        self._rank, self._size = ranks

    def __call__(self, items: Any) -> tuple[int, int, Any]:  # noqa: ANN401 - whatever the dataset gives
        whole = len(items) if self._automatic else 1
        part = parts(whole, self._size)[self._rank]
        if not part:
            return 0, whole, None
        mine = items[part.start : part.stop] if self._automatic else items
        return len(part), whole, self._collate(mine)
