import pytest
import torch

from p2pd.errors import WorkloadError
from p2pd.workload.contract import Lease
from p2pd.workloads import still


def lease(*samples: int) -> Lease:
    return Lease(samples, 0, 7, lambda: None)


@pytest.mark.parametrize("megabytes", [0.000004, 0.01, 0.94, 40.0])
def test_a_model_is_as_large_as_asked_for(megabytes: float) -> None:
    schema = still.build({"megabytes": megabytes}).schema()
    parameters = sum(tensor.shape[0] for tensor in schema.tensors)
    assert parameters == round(megabytes * 1e6 / 4)


def test_updates_of_one_window_differ_and_a_lease_gives_the_same_one_again() -> None:
    workload = still.build({"megabytes": 0.01})
    start = {name: tensor.clone() for name, tensor in workload.state().items()}
    found = []
    for samples in ((0, 1), (2, 3), (0, 1)):
        workload.load(start)
        assert workload.train(lease(*samples)).samples == 2
        found.append(workload.state()["layer0000"].clone())
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def test_every_head_is_as_good_as_the_other() -> None:
    workload = still.build({})
    assert workload.evaluate(lambda: None).loss == 1.0
    assert workload.sample_losses([1, 5], lambda: None) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"size": 3}, "no config key 'size'"),
        ({"megabytes": "1"}, "must be a number"),
        ({"megabytes": True}, "must be a number"),
        ({"megabytes": 0}, "must be positive"),
        ({"megabytes": float("inf")}, "must be positive"),
    ],
)
def test_a_wrong_config_is_refused_by_name(config: dict[str, object], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        still.build(config)
