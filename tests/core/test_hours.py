import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pd.core.hours import DAY_MINUTES, are_open, next_open, parse_hours

MON, FRI, SAT, SUN = 0, 4, 5, 6


def at(hour: int, minute: int = 0) -> int:
    return hour * 60 + minute


@pytest.mark.parametrize(
    ("text", "day", "minute", "held"),
    [
        ("20:00-08:00", MON, at(20), True),
        ("20:00-08:00", MON, at(19, 59), False),
        ("20:00-08:00", MON, at(7, 59), True),
        ("20:00-08:00", MON, at(8), False),
        ("09:00-17:30", SUN, at(17, 29), True),
        ("09:00-17:30", SUN, at(17, 30), False),
        ("mon-fri 20:00-08:00", SAT, at(7), True),  # Friday's night
        ("mon-fri 20:00-08:00", SAT, at(20), False),
        ("mon-fri 20:00-08:00", MON, at(7), False),  # Sunday's would be
        ("sat-sun 00:00-24:00", SAT, 0, True),
        ("sat-sun 00:00-24:00", SUN, at(23, 59), True),
        ("sat-sun 00:00-24:00", MON, 0, False),
        ("fri-mon 10:00-11:00", SUN, at(10, 30), True),
        ("sun 23:00-01:00", MON, at(0, 30), True),
        ("24:00-08:00", MON, at(3), True),
    ],
)
def test_a_stretch_holds_its_minutes_on_its_days(
    text: str, day: int, minute: int, held: bool
) -> None:
    assert parse_hours(text).hold(day, minute) is held


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("20-8", "'20-8' is not like 20:00-08:00"),
        ("20:00-08:00 ", "is not like"),
        ("25:00-08:00", "25:00 in '25:00-08:00' is no time of day"),
        ("20:60-08:00", "20:60 in"),
        ("24:01-08:00", "24:01 in"),
        ("08:00-08:00", "begins when it ends"),
        ("foo 08:00-09:00", "foo in 'foo 08:00-09:00' is none of mon, tue"),
    ],
)
def test_what_is_no_stretch_is_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_hours(text)


def test_several_stretches_add_up() -> None:
    hours = [parse_hours("20:00-08:00"), parse_hours("sat-sun 00:00-24:00")]
    assert are_open(hours, SAT, at(12))
    assert not are_open(hours, FRI, at(12))
    assert not are_open([], FRI, at(12))


def test_the_next_begin_is_said_with_its_day_where_it_is_another_one() -> None:
    assert next_open([parse_hours("20:00-08:00")], MON, at(12)) == "20:00"
    assert next_open([parse_hours("sat-sun 00:00-24:00")], MON, at(12)) == "sat 00:00"
    assert next_open([parse_hours("mon 10:00-11:00")], MON, at(11)) == "mon 10:00"


@given(st.integers(0, 6), st.integers(0, DAY_MINUTES - 1), st.integers(1, DAY_MINUTES - 1))
def test_a_day_is_one_stretch_and_the_rest_of_it(day: int, begin: int, minutes: int) -> None:
    end = (begin + minutes) % DAY_MINUTES
    texts = (
        f"{a // 60:02}:{a % 60:02}-{b // 60:02}:{b % 60:02}"
        for a, b in ((begin, end), (end, begin))
    )
    one, rest = map(parse_hours, texts)
    assert all(
        one.hold(day, minute) != rest.hold(day, minute) for minute in range(0, DAY_MINUTES, 7)
    )
