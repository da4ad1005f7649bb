"""The script that measures how busy devices are, but for its fleet."""

from pathlib import Path

import pytest

from scripts.utilisation import WARM_UP, measured
from scripts.wan import QUEUE_S, Line


def test_a_share_is_of_the_time_between_the_begins_of_leases(tmp_path: Path) -> None:
    begins = [0.0] * WARM_UP + [10.0, 20.0, 30.0]
    for number, busy_s in enumerate((9.0, 5.0)):
        lines = [f"{begin_s:.6f} {begin_s + busy_s:.6f}" for begin_s in begins]
        (tmp_path / str(number)).write_text("\n".join(lines))
    (tmp_path / "2").write_text("1.0 2.0")  # began too late to say anything
    found = measured(tmp_path)
    assert found.shares == pytest.approx((0.9, 0.5))
    assert found.waits_s == pytest.approx((1.0, 1.0, 5.0, 5.0))


def test_a_line_takes_its_delay_and_its_rate_and_drops_what_would_wait_too_long() -> None:
    line = Line(delay_s=0.05, rate_bytes_s=1000.0)
    assert line.passes(0.0, 100) == pytest.approx(0.15)
    assert line.passes(0.0, 100) == pytest.approx(0.25)  # behind the first one
    assert line.passes(0.0, 100) is None
    assert line.passes(1.0, 100) == pytest.approx(1.15)
    assert QUEUE_S == 0.15
