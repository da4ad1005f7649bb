import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader

from p2pd import Generated, Indexed, Learner, Pipeline, Workload, from_loaders
from p2pd.core.ids import ArtifactId
from p2pd.core.permutation import shard_at
from p2pd.core.work import Progress, TrainJob
from p2pd.errors import WorkloadError
from p2pd.workload.contract import Lease
from p2pd.workload.loaders import samples_of
from p2pd.workload.session import leased_samples

LONG = 10**12


def sample(chance: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(3, generator=chance)
    return inputs, inputs.sum(dim=0, keepdim=True)


def stream(seed: int = 0, samples: int = LONG) -> Generated:
    return Generated(samples, sample, seed=seed, descriptor="sums of three")


def workload(data: Generated | None = None, given: Pipeline | None = None) -> Workload:
    model = nn.Linear(3, 1)
    return from_loaders(
        Learner(model, SGD(model.parameters(), 0.1), loss=nn.functional.mse_loss),
        DataLoader(data or stream(), batch_size=4, shuffle=True),
        DataLoader(stream(seed=1, samples=8), batch_size=8),
        metric="loss",
        higher_is_better=False,
        data=given,
    )


@given(st.integers(0, LONG - 1), st.integers(0, LONG - 1), st.integers(0, 2**40))
def test_any_node_makes_any_sample_again_whatever_it_made_before(
    place: int, other: int, seed: int
) -> None:
    torch.manual_seed(place)
    first = stream(seed)[place][0]
    second_node = stream(seed)
    torch.manual_seed(other)
    second_node[other]
    assert torch.equal(second_node[place][0], first)


def test_another_place_or_seed_is_another_sample() -> None:
    assert not torch.equal(stream()[7][0], stream()[8][0])
    assert not torch.equal(stream()[7][0], stream(seed=1)[7][0])


def test_a_slice_is_the_same_in_the_loaders_own_processes() -> None:
    places = [5, 10**11, 3]
    alone = DataLoader(stream(), batch_size=4, shuffle=True)
    helped = DataLoader(stream(), batch_size=4, shuffle=True, num_workers=1)
    mine, theirs = samples_of(alone, "train"), samples_of(helped, "train")
    (first,) = mine.load(mine.in_order(places), 0)
    (again,) = theirs.load(theirs.in_order(places), 0)
    assert torch.equal(first.content[0], again.content[0])


def test_i07_a_lease_of_an_endless_stream_costs_its_own_length_only() -> None:
    shard = shard_at(bytes(32), 0, 12345, LONG // 10)
    job = TrainJob(1, ArtifactId(bytes(32)), (shard,), 10, Progress(0, 0, 0, 0, 0), 0)
    samples = leased_samples(job, LONG)
    trained = workload().train(Lease(samples, 0, 0, lambda: None))
    assert (trained.samples, trained.steps) == (10, 3)


def test_a_place_outside_of_the_stream_is_refused() -> None:
    for place in (-1, LONG):
        with pytest.raises(IndexError):
            stream()[place]
    for samples in (0, 2**40 + 1):
        with pytest.raises(WorkloadError, match="1 to"):
            stream(samples=samples)


def test_a_stream_says_what_it_is_and_others_only_what_they_are_told_to() -> None:
    assert workload().pipeline.kind() == "generated"
    assert workload().pipeline.descriptor() == "seed 0: sums of three"
    assert workload(stream(seed=4)).pipeline.descriptor() == "seed 4: sums of three"
    assert workload(given=Indexed("pages")).pipeline.descriptor() == "pages"
    assert (Indexed().kind(), Indexed().descriptor(), Indexed().local_root()) == (
        "indexed",
        "",
        None,
    )
