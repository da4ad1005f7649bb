from pathlib import Path

import pytest
import torch

from p2pd.errors import WorkloadError
from p2pd.workload.contract import Cancelled, Lease
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
        ({"megabytes": "1"}, "megabytes must be a positive number"),
        ({"megabytes": True}, "megabytes must be a positive number"),
        ({"megabytes": 0}, "megabytes must be a positive number"),
        ({"megabytes": float("inf")}, "megabytes must be a positive number"),
        ({"seconds": -1.0}, "seconds must be a positive number"),
    ],
)
def test_a_wrong_config_is_refused_by_name(config: dict[str, object], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        still.build(config)


def test_a_device_that_waits_is_busy_as_long_as_it_is_told_and_says_when(tmp_path: Path) -> None:
    workload = still.build({"megabytes": 0.01, "seconds": 0.06, "journal": str(tmp_path)})
    for _ in range(2):
        workload.train(lease(0, 1))
    (journal,) = tmp_path.iterdir()
    spans = [[float(word) for word in line.split()] for line in journal.read_text().splitlines()]
    assert len(spans) == 2
    assert all(end_s - begin_s >= 0.06 for begin_s, end_s in spans)
    assert spans[0][1] <= spans[1][0]


def test_a_device_that_waits_stops_when_it_is_called_off() -> None:
    def stop() -> None:
        raise Cancelled

    workload = still.build({"seconds": 3600.0})
    with pytest.raises(Cancelled):
        workload.train(Lease((0,), 0, 7, stop))
