"""When a trainer may work: stretches of a week, in the local time of its machine.

`20:00-08:00` is every day, from eight in the evening to eight in the morning; `sat-sun 00:00-24:00` is the
weekend. A stretch over midnight belongs to the day on which it begins. Units: minutes of a day; days count
from Monday, 0.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
FORM = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))? +)?(\d\d):(\d\d)-(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class Hours:
    days: tuple[int, ...]
    """On which it begins."""
    begin: int
    end: int
    """Not above begin where it reaches into the day after."""

    def hold(self, day: int, minute: int) -> bool:
        """Whether a minute lies in it."""
        if self.begin < self.end:
            return day in self.days and self.begin <= minute < self.end
        evening = day in self.days and minute >= self.begin
        morning = (day - 1) % len(DAYS) in self.days and minute < self.end
        return evening or morning


def parse_hours(text: str) -> Hours:
    """Raises ValueError: it is not of that form."""
    match = FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.60} is not like 20:00-08:00 or sat-sun 00:00-24:00")
    first, last = match[1], match[2] or match[1]
    for day in (first, last):
        if day is not None and day not in DAYS:
            raise ValueError(f"{day} in {text!r:.60} is none of {', '.join(DAYS)}")
    days = range(len(DAYS))
    if first is not None:
        start, count = DAYS.index(first), (DAYS.index(last) - DAYS.index(first)) % len(DAYS) + 1
        days = range(start, start + count)
    begin, end = _minute(match[3], match[4], text), _minute(match[5], match[6], text)
    if begin == end:
        raise ValueError(f"{text!r:.60} begins when it ends: the whole day is 00:00-24:00")
    return Hours(tuple(day % len(DAYS) for day in days), begin % DAY_MINUTES, end)


def are_open(hours: Iterable[Hours], day: int, minute: int) -> bool:
    return any(one.hold(day, minute) for one in hours)


def next_open(hours: Iterable[Hours], day: int, minute: int) -> str:
    """When the next stretch begins, for people: `20:00`, with the day where it is another one."""
    stretches = tuple(hours)
    for after in range(1, len(DAYS) * DAY_MINUTES + 1):
        days, at = divmod(minute + after, DAY_MINUTES)
        if are_open(stretches, (day + days) % len(DAYS), at):
            clock = f"{at // 60:02}:{at % 60:02}"
            return clock if days == 0 else f"{DAYS[(day + days) % len(DAYS)]} {clock}"
    raise AssertionError("each stretch comes once a week")


def _minute(hour: str, minute: str, text: str) -> int:
    value = int(hour) * 60 + int(minute)
    if int(minute) > 59 or value > DAY_MINUTES:
        raise ValueError(f"{hour}:{minute} in {text!r:.60} is no time of day")
    return value
