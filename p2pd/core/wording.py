"""Numbers in sentences that people read."""

from collections import Counter
from collections.abc import Sequence


def tallied(names: Sequence[str]) -> str:
    """`cuda:0, 2 x cpu`: each name once, in the order of their first ones."""
    counts = Counter(names)
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def counted(count: int, noun: str, form: str = "") -> str:
    """`1 fleet`, `0 fleets`, and with form `,` also `2,000 fleets`. Of nouns that only take an s."""
    return f"{count:{form}} {noun}" if count == 1 else f"{count:{form}} {noun}s"


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
