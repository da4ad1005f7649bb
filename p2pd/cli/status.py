"""`p2pd status`."""

import sys
from typing import Annotated

import typer

from p2pd.cli.of_node import ANSWER_S, ConfigFile, DataDir, data_dir_of
from p2pd.cli.output import AsJson, say_json
from p2pd.cli.tables import console
from p2pd.io.control import ask
from p2pd.status.legend import explained
from p2pd.status.live import terminal_keys, watch
from p2pd.status.snapshot import Snapshot, from_json, to_json
from p2pd.status.view import view

EPILOG = f"""What the words mean (? on the screen shows this, too):

{explained()}

docs/operations.md says more.
"""


def command(
    *,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False,
    in_json: AsJson = False,
) -> None:
    directory = data_dir_of(data_dir, config)

    def poll() -> Snapshot:
        return from_json(ask(directory, {"call": "status"}, ANSWER_S))

    if in_json:
        say_json(to_json(poll()))
    elif once or not sys.stdout.isatty():
        screen = console()
        screen.print(view(poll(), screen.width))
    else:
        with terminal_keys() as keys:
            watch(poll, console(), keys)
