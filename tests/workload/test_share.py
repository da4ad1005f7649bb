import pytest

from p2pd.workload.share import Share


@pytest.mark.parametrize(("share", "rest_s"), [(1.0, 0.0), (0.5, 2.0), (0.1, 18.0)])
def test_after_a_step_comes_a_rest_that_leaves_the_share(share: float, rest_s: float) -> None:
    one = Share(share)
    assert one.rest_s(10.0) == 0.0  # no step was made yet
    one.work(10.0)
    assert one.rest_s(12.0) == pytest.approx(rest_s)
    one.work(12.0 + rest_s)
    assert one.rest_s(13.0 + rest_s) == pytest.approx(rest_s / 2)


def test_what_lies_between_two_leases_is_no_step() -> None:
    one = Share(0.5)
    one.work(10.0)
    one.leave()
    assert one.rest_s(1000.0) == 0.0
