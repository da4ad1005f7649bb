"""What a bench found: one row per figure, each beside the floor that was measured in the same run.

A ratio is value over floor. Whether a large one is good depends on the unit: of seconds one wants
few, of MB/s many. MB are 10**6 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COLUMNS = ("name", ">value", "unit", ">ratio", ">floor", "floor is")


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float
    unit: str
    floor: float | None = None
    """In the same unit; None where nothing sensible stands beside the value."""
    floor_name: str = ""
    """What was measured for the floor."""

    def __post_init__(self) -> None:
        if (self.floor is None) == bool(self.floor_name):
            raise ValueError(f"row {self.name!r} must have both a floor and its name, or neither")

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "floor": self.floor,
            "floor_name": self.floor_name,
            "ratio": self.ratio,
        }

    def cells(self) -> tuple[str, ...]:
        """As COLUMNS names them."""
        ratio, floor = _figure(self.ratio), _figure(self.floor)
        return (self.name, _figure(self.value), self.unit, ratio, floor, self.floor_name)


def to_json(bench: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {"bench": bench, "rows": [row.to_json() for row in rows]}


def _figure(value: float | None) -> str:
    """Three digits, or all of those before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
