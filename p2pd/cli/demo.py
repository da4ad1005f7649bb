"""`p2pd demo`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, say, say_json
from p2pd.cli.tables import print_table
from p2pd.core.ids import SHORT_HEX
from p2pd.daemon.demo import DemoOptions, demo
from p2pd.daemon.outcome import Outcome


def command(  # noqa: PLR0913 - one parameter per option
    *,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where it all lies; by default a temporary one.")
    ] = None,
    keep: Annotated[bool, typer.Option(help="Keep the directory afterwards.")] = False,
    trainers: Annotated[int, typer.Option(min=1, help="Trainers.")] = 3,
    validators: Annotated[int, typer.Option(min=1, help="Validators.")] = 3,
    reducers: Annotated[int, typer.Option(min=0, help="Reducers.")] = 1,
    windows: Annotated[int, typer.Option(min=1, help="Heads to promote.")] = 10,
    in_json: AsJson = False,
) -> None:
    options = DemoOptions(
        dir=directory,
        keep=keep,
        trainers=trainers,
        validators=validators,
        reducers=reducers,
        windows=windows,
    )
    # Standard output is for the result: scripts read it.
    outcome = demo(options, lambda line: typer.echo(line, err=True))
    if in_json:
        say_json(outcome.to_json())
    else:
        print_outcome(outcome)
    raise typer.Exit(0 if outcome.ok else 1)


def print_outcome(outcome: Outcome) -> None:
    """Each height, each node, and how the fleet compares with the same training alone."""
    columns = (">height", "outcome", ">accepted", ">rejected", ">accuracy", ">train s", ">more s")
    cells = [
        (
            str(row.height),
            row.outcome,
            str(row.accepted),
            str(row.rejected),
            _number(row.accuracy, 4),
            _number(row.train_s, 2),
            _number(row.overhead_s, 2),
        )
        for row in outcome.heights
    ]
    print_table(columns, cells)
    say("")
    nodes = [
        (node.name, node.role, node.peer[:SHORT_HEX], str(node.height), node.head[:SHORT_HEX])
        for node in outcome.nodes
    ]
    print_table(("node", "role", "peer", ">height", "head"), nodes)
    say("", *verdict(outcome))


def verdict(outcome: Outcome) -> list[str]:
    """What it came to, in words."""
    return [
        f"head      {outcome.head} at height {outcome.height}, "
        + ("the same on every node" if outcome.agree else "not the same on every node"),
        f"accuracy  {outcome.accuracy:.4f}; trained alone on as many samples: "
        f"{outcome.central_accuracy:.4f}",
        f"files     {outcome.directory}",
        f"{'done' if outcome.ok else 'failed: ' + outcome.why} in {outcome.seconds:.1f} s",
    ]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
