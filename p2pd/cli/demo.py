"""`p2pd demo`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson
from p2pd.daemon.demo import DemoOptions, demo


def command(  # noqa: PLR0913 - one parameter per option
    *,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where it all lies; by default a temporary one."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep all files, as --dir does.")] = False,
    trainers: Annotated[int, typer.Option(min=1, max=32, metavar="N", help="Trainers.")] = 3,
    validators: Annotated[int, typer.Option(min=1, max=32, metavar="N", help="Validators.")] = 3,
    reducers: Annotated[int, typer.Option(min=0, max=32, metavar="N", help="Reducers.")] = 1,
    windows: Annotated[int, typer.Option(min=1, metavar="N", help="Heads to certify.")] = 10,
    in_json: AsJson = False,
) -> None:
    options = DemoOptions(
        directory=directory,
        keep=keep,
        trainers=trainers,
        validators=validators,
        reducers=reducers,
        windows=windows,
        in_json=in_json,
    )
    raise typer.Exit(demo(options))
