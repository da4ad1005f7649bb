"""`p2pd bench`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.bench.rows import COLUMNS, to_json
from p2pd.bench.suite import BENCHES, Options, run_bench
from p2pd.cli.output import AsJson, progress, say_json
from p2pd.cli.tables import print_table


def command(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(BENCHES)}.")],
    size: Annotated[
        list[float] | None,
        typer.Option(
            min=0.001, max=100_000, metavar="MB", help="Of models or files, in MB; repeat."
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How often each is timed.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Of MNIST's files, for bench communication."),
    ] = None,
    in_json: AsJson = False,
) -> None:
    rows = run_bench(name, Options(progress, tuple(size or ()), repeats, data))
    print_table(COLUMNS, [row.cells() for row in rows], to_errors=in_json)
    if in_json:
        say_json(to_json(name, rows))
