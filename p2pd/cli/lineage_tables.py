"""The certified lineage as tables for people."""

from collections.abc import Sequence
from typing import Any

from p2pd.cli.lineage import Row
from p2pd.cli.output import say
from p2pd.cli.tables import print_table
from p2pd.core.ids import SHORT_HEX, short
from p2pd.core.revision import Revision
from p2pd.core.wording import counted
from p2pd.core.work import MILLION

DETAILS = (
    ("cohort", ("peer", "verdict", ">samples", ">leased", ">steps", ">weight")),
    ("reports", ("peer", ">metric", ">loss", ">samples")),
    ("votes", ("peer", ">weight", ">round")),
    ("leases", ("peer", ">samples")),
    ("standing", ("peer", ">score", ">delivered", ">missed", ">rejected", ">quarantined_until")),
)
"""Of a height: what is shown as a table, and its columns."""


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
    done = found["progress"]
    lines = [
        f"height    {found['height']}",
        f"decision  {found['decision']}",
        f"outcome   {found['outcome']}",
        f"head      {found['head']}",
        f"progress  {counted(done['heads'], 'head')}, {counted(done['steps'], 'step')}, "
        f"{counted(done['samples'], 'sample')}, epoch {done['epoch']}",
        f"plan      {found['plan']}, {counted(len(found['leases']), 'lease')} for the next height",
    ]
    say(*lines)
    for key, columns in DETAILS:
        if found[key]:
            cells = [[_cell(row[name.lstrip(">")]) for name in columns] for row in found[key]]
            say("")
            print_table(columns, cells, title=key)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    text = str(value)
    return text[:SHORT_HEX] if isinstance(value, str) and len(text) > 2 * SHORT_HEX else text
