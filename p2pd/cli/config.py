"""`p2pd config`: node files and fleet files, told apart by the table [fleet]."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, group, say, say_json
from p2pd.cli.settings import effective, is_fleet, keys_json, settings_json
from p2pd.config.render import describe
from p2pd.config.render import show as rendered
from p2pd.daemon.settings import TABLES

app = group()


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Configuration of a node or a fleet.")
    ],
    in_json: AsJson = False,
) -> None:
    """Say all that is wrong with a configuration, with line and key."""
    effective(file)
    if in_json:
        say_json({"file": str(file), "ok": True, "fleet": is_fleet(file)})
    else:
        say(f"{file}: sound")


@app.command()
def show(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Configuration; without one, all keys are explained."),
    ] = None,
    in_json: AsJson = False,
) -> None:
    """Show a configuration as it takes effect."""
    if file is None:
        if in_json:
            say_json(keys_json(TABLES))
        else:
            say(describe(TABLES))
        return
    instances: Mapping[str, object] = effective(file)
    if in_json:
        say_json(settings_json(instances))
    else:
        say(rendered(instances))
