import pytest

from p2pd.status.pictures import Spark, bar, clock, duration, figure, spark


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0.0, "····"), (0.5, "██··"), (1.0, "████"), (0.28125, "█▏··"), (-3.0, "····"), (7.0, "████")],
)
def test_a_bar_is_filled_by_its_share(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.25, "█·┃·"), (0.75, "██▓·"), (1.0, "██▓█"), (0.0, "··┃·")]
)
def test_a_mark_shows_where_it_is_enough(share: float, drawn: str) -> None:
    assert bar(share, 4, mark=0.75) == drawn


def test_a_spark_runs_from_lowest_to_highest() -> None:
    assert spark([0.0, 0.5, 1.0], 10) == Spark("▁▅█", 0.0, 1.0)


def test_a_spark_shows_the_newest_where_room_is_short() -> None:
    assert spark([9.0, 0.0, 1.0], 2) == Spark("▁█", 0.0, 1.0)


def test_a_value_far_from_the_others_does_not_flatten_them() -> None:
    drawn = spark([0.0, 0.95, 0.96, 0.97, 0.96, 0.98], 10)
    assert drawn.levels == "▁▅▆▇▆█"
    assert 0.89 < drawn.low < drawn.high == 0.98, "the scale is that of what is drawn"


def test_a_spark_of_equal_values_is_level() -> None:
    assert spark([0.3, 0.3], 10).levels == "▅▅"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9, "0 s"), (59.9, "59 s"), (185, "3:05"), (7267, "2:01:07"), (3 * 86400 + 7300, "3 d 2 h")],
)
def test_a_duration_is_short(seconds: float, said: str) -> None:
    assert clock(seconds) == said


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.93, "0.9300"),
        (-0.5, "-0.5000"),
        (12.34567, "12.346"),
        (123.4567, "123.46"),
        (4321.04, "4321.0"),
        (654321.9, "654322"),
        (7654321.0, "7.7e+06"),
    ],
)
def test_a_large_measurement_has_fewer_decimals(value: float, shown: str) -> None:
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0"), (9.94, "9.9"), (9.96, "10"), (135.4, "135")]
)
def test_long_durations_have_no_decimals(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_first_value_far_off_does_not_flatten_a_curve_that_is_level_later() -> None:
    drawn = spark([0.05, 0.5, 0.96, 0.975, 0.97, 0.972, *[0.972] * 40], 64)
    assert drawn.low > 0.9
    assert drawn.levels[:2] == "▁▁" < drawn.levels[2:4]
