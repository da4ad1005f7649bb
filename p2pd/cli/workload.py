"""`p2pd workload`."""

from pathlib import Path
from typing import Annotated

import trio
import typer

from p2pd.cli.examined import as_json, lines
from p2pd.cli.inputs import parse_config
from p2pd.cli.output import AsJson, group, progress, say, say_json, warn
from p2pd.daemon.examine import Lease, examine_alone
from p2pd.io.worker import WorkerSettings

app = group()


@app.callback()
def workload() -> None:
    """Examine a workload."""


@app.command()
def check(  # noqa: PLR0913 - one parameter per option
    module: Annotated[str, typer.Argument(metavar="MODULE", help="Module of the workload.")],
    *,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For the module's build; repeat.")
    ] = None,
    workload_path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the module, if it is not installed."),
    ] = None,
    data: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Directory of shard files; repeat.")
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Samples of a lease that it trains.")
    ] = 128,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="The longest that each step may take.")
    ] = 120.0,
    memory_bytes: Annotated[
        int, typer.Option(min=0, metavar="N", help="Most memory that it may take; 0 for no limit.")
    ] = 0,
    in_json: AsJson = False,
) -> None:
    """Build a workload, train one small lease, evaluate, and say what it is or what is wrong."""
    settings = WorkerSettings(
        module=module,
        config=parse_config(config or []),
        paths=(workload_path,) if workload_path else (),
        data=tuple(data or ()),
        memory_bytes=memory_bytes or None,
        build_s=deadline,
        train_s=deadline,
        evaluate_s=deadline,
    )
    lease = Lease(shards=1, shard_samples=samples)
    found = trio.run(examine_alone, settings, lambda line: progress(f"workload: {line}"), lease)
    if in_json:
        say_json(as_json(found))
        return
    say(*lines(found))
    for line in found.warnings:
        warn(line)
