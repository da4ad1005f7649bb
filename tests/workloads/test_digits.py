import pytest
import torch

from p2pd.errors import WorkloadError
from p2pd.workload.local import Point, train_alone
from p2pd.workloads.digits import data

MODULE = "p2pd.workloads.digits"


def test_the_split_is_fixed_and_the_pixels_are_scaled() -> None:
    train, valid = data()
    assert (len(train), len(valid)) == (1437, 360)
    assert not set(train.indices) & set(valid.indices)
    assert train.indices[:3] == data()[0].indices[:3]
    pixels = torch.stack([train[index][0] for index in range(len(train))])
    assert (float(pixels.min()), float(pixels.max())) == (0.0, 1.0)
    assert {int(valid[index][1]) for index in range(len(valid))} == set(range(10))


def test_training_alone_learns_the_digits_and_reports_its_way() -> None:
    points: list[Point] = []
    result = train_alone(MODULE, {"hidden": 32}, samples=3000, every=1000, report=points.append)
    assert [point.samples for point in points] == [0, 1000, 2000, 3000]
    assert tuple(points) == result.points
    assert points[-1].steps == 375
    assert points[0].metric < 0.3
    assert points[-1].metric > 0.85
    assert points[-1].train_loss < points[1].train_loss


def test_training_alone_takes_positive_counts_only() -> None:
    with pytest.raises(WorkloadError, match="must be positive"):
        train_alone(MODULE, {}, samples=0, every=10, report=print)
