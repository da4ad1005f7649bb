"""The certified lineage as tables for people."""

from collections.abc import Sequence
from typing import Any

from p2pd.cli.lineage import Row, outcome_of
from p2pd.cli.output import say
from p2pd.cli.tables import print_table
from p2pd.core.ids import SHORT_HEX, short
from p2pd.core.revision import Revision
from p2pd.core.wording import counted
from p2pd.core.work import FULL, MILLION

DETAILS = (
    ("cohort", ("peer", "verdict", ">samples", ">leased", ">steps", ">share")),
    ("reports", ("peer", ">metric", ">loss", ">samples")),
    ("votes", ("peer", ">weight", ">round")),
    ("leases", ("peer", ">samples")),
    (
        "standing",
        (
            "peer",
            ">score",
            ">delivered",
            ">missed",
            ">rejected",
            ">wrong_merges",
            "quarantined until",
        ),
    ),
)
"""Of a height: what is shown as a table, and its columns."""
TITLES = {"leases": "next leases", "standing": f"standing  score of {FULL}"}
NO_REPORTS = "none here: each head is measured once, by validators, when it is new"


def print_lineage(revision: Revision, rows: Sequence[Row]) -> None:
    print_table(
        (">height", "outcome", "head", ">accepted", ">rejected", ">" + revision.workload.metric),
        [
            (
                str(row.record.decision.height),
                outcome_of(row.record.decision),
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
        f"next      {_plan(found)}",
    ]
    if not found["reports"]:
        lines.append(f"reports   {NO_REPORTS}")
    say(*lines)
    figures = sorted({name for row in found["reports"] for name in row["figures"]})
    reports = [dict.fromkeys(figures, "-") | row["figures"] | row for row in found["reports"]]
    tables = found | {
        "cohort": _cohort(found),
        "standing": _standing(found),
        "reports": reports,
    }
    for key, columns in DETAILS:
        if tables[key]:
            named = [*columns, *(f">{name}" for name in figures if key == "reports")]
            cells = [[_cell(row[name.removeprefix(">")]) for name in named] for row in tables[key]]
            say("")
            print_table(named, cells, title=TITLES.get(key, key))


def _plan(found: dict[str, Any]) -> str:
    """What goes on after a decision."""
    height, leases = found["height"] + 1, len(found["leases"])
    match found["plan"]:
        case "finished":
            return "nothing: the revision has come to its end"
        case "idle":
            return f"height {height} waits for a trainer: none was there to be given a lease"
        case _:
            return f"height {height}, with {counted(leases, 'lease')}"


def _cohort(found: dict[str, Any]) -> list[dict[str, object]]:
    """With each update's share of the merge, and those that brought none."""
    weights = [row["weight"] for row in found["cohort"]]
    whole = 0 if None in weights else sum(weights)
    rows = [
        {**row, "share": f"{100 * row['weight'] / whole:.1f} %" if whole else "-"}
        for row in found["cohort"]
    ]
    missed = {"verdict": "missed", "samples": "-", "steps": "-", "share": "-"}
    return rows + [{**row, **missed} for row in found["missed"]]


def _standing(found: dict[str, Any]) -> list[dict[str, object]]:
    return [
        {**row, "quarantined until": _until(row["quarantined_until"], found["height"])}
        for row in found["standing"]
    ]


def _until(end: int, height: int) -> str:
    if not end:
        return "never was"
    return f"height {end}" if end > height else f"height {end}, over"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    text = str(value)
    return text[:SHORT_HEX] if isinstance(value, str) and len(text) > 2 * SHORT_HEX else text
