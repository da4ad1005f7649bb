"""`p2pd train`: the same training alone, in one process, as what a fleet is compared with."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.alone import Job, curve, train
from p2pd.cli.inputs import parse_config
from p2pd.cli.output import AsJson, say, say_json


def command(  # noqa: PLR0913 - one parameter per option
    *,
    local: Annotated[str, typer.Option(metavar="MODULE", help="Module of the workload.")],
    samples: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many samples to train on in all.")
    ],
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For the module's build; repeat.")
    ] = None,
    every: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Samples between measurements; 0 for 20 of them."),
    ] = 0,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="CPU threads of torch.")] = 1,
    workload_path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the module, if it is not installed."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Directory that p2pd data shard wrote; repeat."),
    ] = None,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="If it fails, show the way through your code.")
    ] = False,
    in_json: AsJson = False,
) -> None:
    job = Job(
        module=local,
        config=parse_config(config or []),
        samples=samples,
        every=every or max(1, samples // 20),
        threads=threads,
        path=workload_path,
        data=tuple(data or ()),
        traceback=traceback,
    )
    trained = train(job, report=(lambda _: None) if in_json else say)
    if in_json:
        say_json(trained)
    else:
        say("", *curve(trained["points"], trained["metric"]))
