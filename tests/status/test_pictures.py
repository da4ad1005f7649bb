import pytest

from p2pd.status.pictures import bar, clock, printable, size, spark


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
    assert spark([0.0, 0.5, 1.0], 10) == "▁▅█"


def test_a_spark_shows_the_newest_where_room_is_short() -> None:
    assert spark([9.0, 0.0, 1.0], 2) == "▁█"


def test_a_value_far_from_the_others_does_not_flatten_them() -> None:
    assert spark([0.0, 0.95, 0.96, 0.97, 0.96, 0.98], 10) == "▁▅▆▇▆█"


def test_a_spark_of_equal_values_is_level() -> None:
    assert spark([0.3, 0.3], 10) == "▅▅"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9, "0 s"), (59.9, "59 s"), (185, "3:05"), (7267, "2:01:07"), (3 * 86400 + 7300, "3 d 2 h")],
)
def test_a_duration_is_short(seconds: float, said: str) -> None:
    assert clock(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_960, "10 kB"),
        (999_600, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (7_000_000_000_000, "7.0 TB"),
    ],
)
def test_a_size_is_short(count: int, said: str) -> None:
    assert size(count) == said


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[2Jb\nc\x07é●") == "a?[2Jb?c?é●"
