from random import Random

import pytest

from p2pd.core.backoff import backoff_s


@pytest.mark.parametrize("failures", [0, 1, 2, 5, 10, 10_000])
def test_delays_spread_over_all_up_to_a_cap_that_doubles(failures: int) -> None:
    dice = Random(7)
    cap_s = min(60.0, 0.5 * 2 ** min(failures, 20))
    delays = [backoff_s(failures, dice, base_s=0.5, most_s=60.0) for _ in range(1000)]
    assert all(0 <= delay_s <= cap_s for delay_s in delays)
    assert min(delays) < 0.05 * cap_s
    assert max(delays) > 0.95 * cap_s
