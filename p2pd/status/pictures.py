"""Numbers and foreign text as they are fit for a screen."""

from collections.abc import Sequence
from statistics import median

EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = "▁▂▃▄▅▆▇█"
FAR = 4
"""Median deviations from the median."""


def printable(text: str) -> str:
    """Text from others as one harmless line: no control characters reach the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


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


def spark(values: Sequence[float], columns: int) -> str:
    """The newest values as columns of eight heights.

    What lies far from the others, as a first value does, is cut: they would all look alike.
    """
    shown = values[-columns:]
    middle = median(shown)
    reach = FAR * median(abs(value - middle) for value in shown)
    low, high = min(shown), max(shown)
    if reach:
        low, high = max(low, middle - reach), min(high, middle + reach)
    if high == low:
        return LEVELS[len(LEVELS) // 2] * len(shown)
    shares = (min(1.0, max(0.0, (value - low) / (high - low))) for value in shown)
    return "".join(LEVELS[round(share * (len(LEVELS) - 1))] for share in shares)


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


def size(count: int) -> str:
    """Bytes in powers of ten, in a few characters."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{value / 1000:.1f} TB"
