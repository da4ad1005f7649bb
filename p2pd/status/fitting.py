"""The first of several renderables that fits the width it gets, so that no value is cut while a column can go."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

ROOM = 1000
"""Columns in which everything has room, to see how many it takes."""


class FirstThatFits:
    """From the fullest to the barest; the last one where none fits."""

    def __init__(self, options: Sequence[RenderableType]) -> None:
        self._options = options

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update_width(ROOM)
        for option in self._options[:-1]:
            if Measurement.get(console, wide, option).maximum <= options.max_width:
                yield option
                return
        yield self._options[-1]


def table(rows: Sequence[Sequence[Text]], *, right: Sequence[int], expand: bool = True) -> Table:
    """Aligned cells without lines; right: numbers of the columns that are set to the right."""
    grid = Table.grid(padding=(0, 1), expand=expand)
    for number in range(len(rows[0])):
        grid.add_column(justify="right" if number in right else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid
