"""`p2pd fleet`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, group, progress, say, say_json
from p2pd.cli.tables import print_table
from p2pd.core.ids import SHORT_HEX
from p2pd.daemon.fleet import STOPPED
from p2pd.daemon.fleet import down as stop
from p2pd.daemon.fleet import status as statuses
from p2pd.daemon.fleet import up as start
from p2pd.errors import printable

app = group()

FleetFile = Annotated[Path, typer.Argument(metavar="FILE", help="Fleet file, TOML.")]
IDS = ("peer", "head")
"""Shortened on the screen, whole in JSON."""


@app.command()
def up(file: FleetFile, in_json: AsJson = False) -> None:
    """Start all nodes of a fleet on this machine."""
    start(file, progress if in_json else say)
    if in_json:
        say_json(statuses(file))


@app.command()
def down(file: FleetFile, in_json: AsJson = False) -> None:
    """Stop the nodes of a fleet that run here."""
    stop(file, progress if in_json else say)
    if in_json:
        say_json(statuses(file))


@app.command()
def status(file: FleetFile, in_json: AsJson = False) -> None:
    """Say which nodes of a fleet run, and where each stands."""
    rows = statuses(file)
    if in_json:
        say_json(rows)
    elif rows:
        columns = [name for name in rows[0] if name != "why"]
        print_table(columns, [[_cell(name, row[name]) for name in columns] for row in rows])
        down = [row for row in rows if not row["running"]]
        if stopped := [row["name"] for row in down if row["why"] == STOPPED]:
            say(f"stopped: {', '.join(stopped)}")
        others = [row for row in down if row["why"] != STOPPED]
        say(*(printable(f"{row['name']} is not running: {row['why']}") for row in others))
    else:
        say("no node of this fleet is known here")


def _cell(column: str, value: str | int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)[:SHORT_HEX] if column in IDS else str(value)
