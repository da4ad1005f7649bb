"""Which node a command is about, and what it is asked. Seconds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from p2pd.cli.output import say, say_json
from p2pd.errors import UsageError
from p2pd.io.control import ask

ANSWER_S = 2.0

DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Data directory of the node.  [this or --config]"),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(envvar="P2PD_CONFIG", metavar="FILE", help="Configuration that names it."),
]


def data_dir_of(data_dir: Path | None, config: Path | None) -> Path:
    """Which node is meant: the one that was typed, else the configuration's."""
    if data_dir is not None:
        return data_dir
    if config is None:
        raise UsageError("name the node by --data-dir or --config")
    from p2pd.daemon.settings import load_node  # noqa: PLC0415 - slow, and seldom needed

    return load_node(config).node.data_dir


def tell_trainer(directory: Path, call: str, *, in_json: bool) -> None:
    """Has a trainer rest or work, and says which it does from now on."""
    answer: dict[str, Any] = ask(directory, {"call": call}, ANSWER_S)
    if in_json:
        say_json(answer)
    else:
        say(f"the trainer rests: {answer['paused']}" if answer["paused"] else "the trainer works")
