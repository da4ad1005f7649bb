"""Numbers as they are fit for a screen."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
DIM = "bright_black"
"""Of what is beside the point."""
FIGURE_DIGITS = 6
FAR = 4
"""Median deviations from the median."""


def bar(share: float, columns: int, mark: float | None = None) -> str:
    """A filled share of so many columns, drawn in eighths; mark puts a line where that share ends."""
    eighths = round(min(1.0, max(0.0, share)) * columns * 8)
    cells = ["█"] * (eighths // 8)
    if eighths % 8:
        cells.append(EIGHTHS[eighths % 8])
    cells += ["·"] * (columns - len(cells))
    if mark is not None:
        place = min(columns - 1, max(0, round(mark * columns) - 1))
        cells[place] = "┃" if cells[place] != "█" else "▓"
    return "".join(cells)


@dataclass(frozen=True, slots=True)
class Spark:
    levels: str
    low: float
    """What the lowest level stands for, and all below it."""
    high: float
    """What the highest level stands for, and all above it."""


def spark(values: Sequence[float], columns: int) -> Spark:
    """The newest values as columns of eight heights.

    What lies far from the others, as a first value does, is cut: they would all look alike.
    """
    shown = values[-columns:]
    middle = median(shown)
    away = [abs(value - middle) for value in shown if value != middle]
    # Where nothing changes for long, those that do differ are the ones to look at.
    reach = FAR * median(away) if away else 0.0
    low, high = min(shown), max(shown)
    if reach:
        low, high = max(low, middle - reach), min(high, middle + reach)
    if high == low:
        return Spark(LEVELS[len(LEVELS) // 2] * len(shown), low, high)
    shares = (min(1.0, max(0.0, (value - low) / (high - low))) for value in shown)
    levels = "".join(LEVELS[round(share * (len(LEVELS) - 1))] for share in shares)
    return Spark(levels, low, high)


def figure(value: float) -> str:
    """A measurement in six characters where that can be: a decimal less for each further digit before the point."""
    digits = len(str(abs(int(value))))
    return f"{value:.{max(0, 5 - digits)}f}" if digits <= FIGURE_DIGITS else f"{value:.1e}"


def duration(seconds: float) -> str:
    """Seconds: 0.4, 12, 135."""
    return f"{seconds:.1f}" if seconds < 9.95 else f"{seconds:.0f}"


def clock(seconds: float) -> str:
    """12 s, 3:05, 2:01:07, 5 d 3 h."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{hours // 24} d {hours % 24} h"
