"""What commands print as tables for people."""

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from p2pd.errors import printable

PIPE_COLUMNS = 160
"""Where there is no screen, nothing need be cut."""


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    *,
    to_errors: bool = False,
) -> None:
    """Columns whose name begins with > are set to the right.

    to_errors: on standard error, where standard output is for scripts.
    """
    heading = Text(printable(title), style="bold") if title else None
    table = Table(box=None, pad_edge=False, title=heading, title_justify="left")
    for name in columns:
        right = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console(to_errors=to_errors).print(table)


def console(*, to_errors: bool = False) -> Console:
    stream = sys.stderr if to_errors else sys.stdout
    return Console(file=stream, width=_width(stream), highlight=False)


def _width(stream: TextIO) -> int | None:
    """None where rich finds it out: COLUMNS, or else the terminal's."""
    return None if "COLUMNS" in os.environ or stream.isatty() else PIPE_COLUMNS
