"""What commands print as tables for people."""

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from p2pd.cli.lineage import Row
from p2pd.core.ids import SHORT_HEX, short
from p2pd.core.revision import Revision
from p2pd.core.work import MILLION
from p2pd.status.pictures import printable

PIPE_COLUMNS = 160
"""Where there is no screen, nothing need be cut."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Columns whose name begins with > are set to the right."""
    heading = Text(printable(title), style="bold") if title else None
    table = Table(box=None, pad_edge=False, title=heading, title_justify="left")
    for name in columns:
        right = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table)


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS, highlight=False)


def print_lineage(revision: Revision, rows: Sequence[Row]) -> None:
    print_table(
        (">height", "outcome", "head", ">accepted", ">rejected", ">" + revision.workload.metric),
        [
            (
                str(row.record.decision.height),
                row.record.decision.header.outcome.text,
                short(row.record.decision.head),
                str(row.accepted),
                str(row.rejected),
                "" if row.metric is None else f"{row.metric / MILLION:.4f}",
            )
            for row in rows
        ],
        title=f"{revision.study} / {revision.experiment} / {revision.name}  {short(revision.id)}",
    )


def print_height(found: dict[str, Any]) -> None:
    """What lineage.detail found."""
    lines = [
        f"height    {found['height']}",
        f"decision  {found['decision']}",
        f"outcome   {found['outcome']}",
        f"head      {found['head']}",
        "progress  {heads} heads, {steps} steps, {samples} samples, epoch {epoch}".format(
            **found["progress"]
        ),
        f"plan      {found['plan']}, {len(found['leases'])} leases for the next height",
    ]
    console().print("\n".join(lines), markup=False)
    for title, key, columns in (
        ("cohort", "cohort", ("peer", "verdict", ">samples", ">leased", ">steps", ">weight")),
        ("reports", "reports", ("peer", ">metric", ">loss", ">samples")),
        ("votes", "votes", ("peer", ">weight", ">round")),
        ("leases", "leases", ("peer", ">samples")),
        (
            "standing",
            "standing",
            ("peer", ">score", ">delivered", ">missed", ">rejected", ">quarantined_until"),
        ),
    ):
        if found[key]:
            cells = [[_cell(row[name.lstrip(">")]) for name in columns] for row in found[key]]
            console().print()
            print_table(columns, cells, title=title)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    text = str(value)
    return text[:SHORT_HEX] if isinstance(value, str) and len(text) > 2 * SHORT_HEX else text
