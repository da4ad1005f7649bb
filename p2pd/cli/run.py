"""`p2pd run`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson
from p2pd.config.loading import Override
from p2pd.daemon.run import run


def command(  # noqa: PLR0913 - one parameter per option
    *,
    role: Annotated[
        str | None,
        typer.Option(metavar="ROLE", help="bootstrap, trainer, reducer, validator or viewer."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(envvar="P2PD_CONFIG", metavar="FILE", help="Configuration file; options win."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of this node alone.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of the UDP socket.")
    ] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="[PEER@]HOST:PORT", help="A node to join by; repeat."),
    ] = None,
    genesis: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Genesis file of the network.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Record of the revision.")
    ] = None,
    workload_path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the workload, if it is not installed."),
    ] = None,
    in_json: AsJson = False,
) -> None:
    options = (
        Override("--data-dir", "node", "data_dir", data_dir),
        Override("--json", "log", "format", "json" if in_json else None),
        Override("--listen", "overlay", "listen", listen),
        Override("--seed", "network", "seeds", seed or None),
        Override("--genesis", "network", "genesis", genesis),
        Override("--record", "experiment", "record", record),
        Override("--workload-path", "experiment", "workload_path", workload_path),
    )
    given = tuple(option for option in options if option.value is not None)
    raise typer.Exit(run(role, config, given))
