"""`p2pd fleet`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, group, progress, say, say_json
from p2pd.cli.tables import print_table
from p2pd.daemon.fleet import down as stop
from p2pd.daemon.fleet import status as statuses
from p2pd.daemon.fleet import up as start

app = group()

FleetFile = Annotated[Path, typer.Argument(help="Fleet file, TOML.")]


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
        columns = list(rows[0])
        cells = [["-" if value is None else str(value) for value in row.values()] for row in rows]
        print_table(columns, cells)
    else:
        say("no node of this fleet is known here")
