"""`p2pd logs`."""

import select
from collections.abc import Callable
from typing import Annotated

import typer

from p2pd.cli.of_node import ConfigFile, DataDir, data_dir_of
from p2pd.cli.output import AsJson, say, say_json
from p2pd.errors import printable
from p2pd.io.tail import Tail

LOOK_S = 0.25
LINES = 40
LOG, WORKER = "log", "worker.log"


def command(
    *,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    worker: Annotated[
        bool, typer.Option("--worker", help="What the workload prints, tracebacks and all.")
    ] = False,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=0, metavar="N", help="How many to begin with.")
    ] = LINES,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what comes.")] = False,
    in_json: AsJson = False,
) -> None:
    tail = Tail(data_dir_of(data_dir, config) / (WORKER if worker else LOG))
    show: Callable[[str], None] = _show_json if in_json else _show
    for line in tail.last(lines):
        show(line)
    while follow:
        select.select([], [], [], LOOK_S)
        for line in tail.more():
            show(line)


def _show(line: str) -> None:
    say(printable(line))


def _show_json(line: str) -> None:
    say_json({"line": line})
