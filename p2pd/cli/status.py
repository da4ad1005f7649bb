"""`p2pd status`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, say_json
from p2pd.cli.tables import console
from p2pd.errors import UsageError
from p2pd.io.control import ask
from p2pd.status.legend import explained
from p2pd.status.live import terminal_keys, watch
from p2pd.status.snapshot import Snapshot, from_json, to_json
from p2pd.status.view import view

ANSWER_S = 2.0
EPILOG = f"""What the words mean (? on the screen shows this, too):

{explained()}

docs/operations.md says more.
"""


def command(
    *,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data directory of the node.  [this or --config]"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(envvar="P2PD_CONFIG", metavar="FILE", help="Configuration that names it."),
    ] = None,
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


def data_dir_of(data_dir: Path | None, config: Path | None) -> Path:
    """Which node is meant: the one that was typed, else the configuration's."""
    if data_dir is not None:
        return data_dir
    if config is None:
        raise UsageError("name the node by --data-dir or --config")
    from p2pd.daemon.settings import load_node  # noqa: PLC0415 - slow, and seldom needed

    return load_node(config).node.data_dir
