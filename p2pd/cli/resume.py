"""`p2pd resume`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, say, say_json
from p2pd.cli.status import ANSWER_S, data_dir_of
from p2pd.io.control import ask


def command(
    *,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data directory of the trainer.  [this or --config]"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(envvar="P2PD_CONFIG", metavar="FILE", help="Configuration that names it."),
    ] = None,
    in_json: AsJson = False,
) -> None:
    answer = ask(data_dir_of(data_dir, config), {"call": "resume"}, ANSWER_S)
    if in_json:
        say_json(answer)
    else:
        say(f"the trainer rests: {answer['paused']}" if answer["paused"] else "the trainer works")
