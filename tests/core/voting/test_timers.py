import pytest

from p2pd.core.voting.timers import CheckTimes, propose_timeout_s


def test_waiting_for_proposals_grows_with_the_round_up_to_ten_seconds() -> None:
    waits_s = [propose_timeout_s(round_) for round_ in range(9)]
    assert waits_s[:3] == [1.0, 1.5, 2.25]
    assert waits_s[5:] == [1.5**5, 10.0, 10.0, 10.0]
    assert propose_timeout_s(10**9) == 10.0


def test_a_check_gets_the_limit_until_eight_are_known() -> None:
    times = CheckTimes(60.0)
    for _ in range(7):
        times.add(0.1)
    assert times.timeout_s(0) == 60.0
    times.add(0.1)
    assert times.timeout_s(0) == 2.0
    assert times.timeout_s(1) == 3.0


def test_a_check_gets_thrice_the_longest_of_the_last_eight_up_to_the_limit() -> None:
    times = CheckTimes(60.0)
    for duration_s in (50, 1, 1, 1, 4, 1, 1, 1, 1):
        times.add(duration_s)
    assert times.timeout_s(0) == 12.0
    assert times.timeout_s(100) == 60.0


def test_a_check_must_have_some_time() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        CheckTimes(0.0)
