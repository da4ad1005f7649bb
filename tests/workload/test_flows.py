from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from p2pd.errors import WorkloadError
from p2pd.workload.batches import fingerprint
from p2pd.workload.contract import Lease
from p2pd.workload.flows import EPOCH_SAMPLES, Flow, flow_of


class Noise(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(torch.randint(10**9, ()))


class Told(IterableDataset[int]):
    """Shares what it is told to give among worker processes, as torch's own documentation does."""

    def __init__(self, more: int = 0) -> None:
        self._places: list[int] = []
        self._more = more

    def __len__(self) -> int:
        return 1000

    def set_lease(self, lease: Lease) -> None:
        self._places = [*lease.samples] + [0] * self._more

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        number, of = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(self._places[number::of])


class Lengthless(Noise):
    def set_lease(self, lease: Lease) -> None:
        pass


def lease(samples: int, seed: int = 1) -> Lease:
    return Lease(range(100, 100 + samples), 0, seed, lambda: None)


def given(loader: DataLoader[int], work: Lease) -> list[list[int]]:
    return [batch.content.tolist() for batch in Flow(loader, "train_loader").leased(work)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_is_seeded_by_the_lease_and_gives_as_many_samples(workers: int) -> None:
    loader = DataLoader(Noise(), batch_size=4, num_workers=workers)
    torch.manual_seed(1)
    first = given(loader, lease(10))
    torch.manual_seed(1)
    assert given(loader, lease(10)) == first
    assert given(loader, lease(10, seed=2)) != first or workers == 0
    sizes = [len(batch) for batch in first]
    assert sum(sizes) == 10
    assert sizes == ([4, 4, 2] if workers == 0 else [4, 4, 1, 1])
    assert len({number for batch in first for number in batch}) == 10


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_that_is_told_the_lease_gives_it(workers: int) -> None:
    loader = DataLoader(Told(), batch_size=3, num_workers=workers)
    flow = Flow(loader, "train_loader")
    batches = list(flow.leased(lease(8)))
    assert sorted(n for batch in batches for n in batch.content.tolist()) == list(range(100, 108))
    assert sum(batch.samples for batch in batches) == 8
    assert len(flow) == 1000


def test_a_stream_without_a_length_has_a_long_epoch_and_says_what_it_is() -> None:
    loader = DataLoader(Noise(), batch_size=4)
    assert len(Flow(loader, "train_loader")) == EPOCH_SAMPLES
    assert flow_of(loader).kind() == "generated"
    assert "samples may repeat" in flow_of(loader).descriptor()
    assert flow_of(DataLoader(Told())).kind() == "indexed"


def test_items_that_are_batches_count_as_one_sample_each() -> None:
    flow = Flow(DataLoader(Noise(), batch_size=None), "train_loader")
    assert [batch.samples for batch in flow.leased(lease(3))] == [1, 1, 1]


def test_what_is_not_the_lease_is_refused_with_advice() -> None:
    with pytest.raises(WorkloadError, match="Told gave more of a lease of 8 samples"):
        given(DataLoader(Told(more=1)), lease(8))
    with pytest.raises(WorkloadError, match="Told gave more of a lease of 0 samples"):
        given(DataLoader(Told(more=1)), lease(0))
    silent = DataLoader(Told(), batch_size=2)
    with pytest.raises(WorkloadError, match="Told gave nothing"):
        given(silent, Lease([], 0, 1, lambda: None))
    with pytest.raises(WorkloadError, match="Lengthless has set_lease but no __len__"):
        Flow(DataLoader(Lengthless()), "train_loader")


class Reading(IterableDataset[int]):
    """From the start of a file, say, whatever the seeds are."""

    def __iter__(self) -> Iterator[int]:
        yield from range(1000)


def test_a_stream_that_starts_over_for_each_lease_is_refused() -> None:
    flow = Flow(DataLoader(Reading(), batch_size=4), "train_loader")
    assert len(list(flow.leased(lease(10)))) == 3
    assert len(list(flow.leased(lease(10)))) == 3  # the same lease again
    with pytest.raises(WorkloadError, match="Reading gives the same samples for each lease"):
        list(flow.leased(lease(10, seed=2)))


def test_a_fingerprint_is_of_all_that_a_batch_holds() -> None:
    batch = {"x": torch.ones(2, 3), "y": [torch.tensor(1, dtype=torch.bfloat16), ("a", 2)]}
    others = (
        {
            **batch,
            "x": torch.ones(2, 3).index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(2.0)),
        },
        {**batch, "y": [torch.tensor(2, dtype=torch.bfloat16), ("a", 2)]},
        {**batch, "y": [torch.tensor(1, dtype=torch.bfloat16), ("b", 2)]},
    )
    marks = {fingerprint(one) for one in (batch, *others)}
    assert len(marks) == 4
    assert fingerprint(batch) == fingerprint(dict(batch))
    assert fingerprint(batch, 1) != fingerprint(batch)
