"""`p2pd experiment`."""

from pathlib import Path
from typing import Annotated, Any

import trio
import typer

from p2pd.cli.extend import (
    Wish,
    endorse,
    extension_json,
    extension_lines,
    hand_over,
    make_extension,
    read_extension,
    write_extension,
)
from p2pd.cli.inputs import parse_config, read_genesis, read_revision, read_signer
from p2pd.cli.lease_data import data_lines
from p2pd.cli.origin import Source, begun
from p2pd.cli.output import AsJson, group, say, say_json, warn
from p2pd.cli.reading import open_chain, revisions_in
from p2pd.cli.revisions import cost_lines, overrides_of, published_json, revision_json
from p2pd.cli.tables import print_table
from p2pd.config.loading import load
from p2pd.core.governance import GovernanceRecord, SignedGovernance
from p2pd.core.ids import short
from p2pd.daemon.outer import doubts
from p2pd.daemon.publish import PUBLISH_TABLES, PublishRequest
from p2pd.daemon.publish import publish as publish_revision
from p2pd.errors import UsageError

app = group()

IN_FILE = "[required here or in --from]"

GenesisFile = Annotated[
    Path, typer.Option("--genesis", metavar="FILE", help="Genesis file of the network.")
]
Authority = Annotated[
    list[Path],
    typer.Option(
        metavar="FILE", help="Key file, or data directory with a key, that signs; repeat."
    ),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="TOML file: [revision] [schedule] [update] [merge] [outer] [canary].",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="TABLE.KEY=VALUE",
        help="A setting, like schedule.deadline_s=60; repeat.",
    ),
]


Weights = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Safetensors file that the first head is made of."),
]
After = Annotated[
    Path | None,
    typer.Option(metavar="RECORD", help="Go on from the newest head of this revision ..."),
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="... as the node of this data directory has it.")
]
Config = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="For the module's build; repeat.")
]
WorkloadPath = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Directory of the module, if it is not installed."),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(metavar="DIR", help="Directory that p2pd data shard wrote; repeat."),
]
Out = Annotated[
    Path, typer.Option(metavar="FILE", help="Where the record goes: NAME.revision.cbor.")
]
Workload = Annotated[
    str | None, typer.Option(metavar="MODULE", help=f"Module of the workload.  {IN_FILE}")
]
Study = Annotated[str | None, typer.Option(metavar="NAME", help=f"Name of the study.  {IN_FILE}")]
Experiment = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"Name of the experiment.  {IN_FILE}")
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help=f"Name of the revision.  {IN_FILE}")]

Check = Annotated[
    bool, typer.Option("--check/--no-check", help="Whether to examine the workload before.")
]


@app.command()
def publish(  # noqa: PLR0913 - one parameter per option
    *,
    genesis: GenesisFile,
    authority: Authority,
    out: Out,
    from_file: FromFile = None,
    workload: Workload = None,
    config: Config = None,
    workload_path: WorkloadPath = None,
    data: Data = None,
    study: Study = None,
    experiment: Experiment = None,
    name: Name = None,
    settings: Settings = None,
    weights: Weights = None,
    after: After = None,
    data_dir: DataDir = None,
    check: Check = True,
    in_json: AsJson = False,
) -> None:
    """Examine and build a workload, sign the revision, write its record and its first head."""
    options = {
        "workload": workload,
        "config": parse_config(config) if config else None,
        "study": study,
        "experiment": experiment,
        "name": name,
    }
    source = Source(weights, after, data_dir)
    with begun(source, genesis, out.absolute().parent) as (beginning, defaults):
        overrides = overrides_of(options, settings or [])
        tables = load(from_file, PUBLISH_TABLES, overrides, defaults)
        request = PublishRequest(
            genesis=read_genesis(genesis),
            signers=tuple(read_signer(path) for path in authority),
            out=out,
            beginning=beginning,
            workload_paths=(workload_path,) if workload_path else (),
            data=tuple(data or ()),
            examine=check,
            log=lambda line: typer.echo(f"workload: {line}", err=True),
            **tables,
        )
        published = trio.run(publish_revision, request)
    if in_json:
        say_json(published_json(published))
    else:
        say(*cost_lines(published), *data_lines(published.signed.revision, data or ()))
    found = published.examined.warnings if published.examined else ()
    for line in (*found, *doubts(published.signed.revision)):
        warn(line)


@app.command()
def extend(  # noqa: PLR0913 - one parameter per option
    *,
    genesis: GenesisFile,
    authority: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Key file of the authority that signs; repeat."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="RECORD", help="The revision that is to go on.")
    ] = None,
    end_heads: Annotated[
        int | None, typer.Option(metavar="N", help="It ends after N heads in all; 0: never.")
    ] = None,
    end_epochs: Annotated[
        int | None, typer.Option(metavar="N", help="It ends after N epochs in all; 0: never.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(metavar="METRIC", help="It ends with a head as good as this.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data directory of a node that takes it.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="An extension that others made or signed."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it, and hand nothing over.")
    ] = None,
    in_json: AsJson = False,
) -> None:
    """Let a run end later: sign that, and hand it to a running node, which tells all others."""
    network = read_genesis(genesis)
    if from_file is not None:
        made: GovernanceRecord | SignedGovernance = read_extension(from_file, network)
    elif record is None or data_dir is None:
        raise UsageError("name --record and the --data-dir of a node, or an extension by --from")
    else:
        revision = read_revision(record, network)
        with open_chain(genesis, data_dir, revision.id.hex()) as chain:
            made = make_extension(chain, Wish(end_heads, end_epochs, target))
    signers = [read_signer(path) for path in authority or ()]
    signed = endorse(network, made, signers)
    if out is not None:
        write_extension(out, signed)
    elif data_dir is None:
        raise UsageError("name the --data-dir of a running node, or a file by --out")
    else:
        hand_over(data_dir, network, signed)
    if in_json:
        say_json(extension_json(signed, out))
    else:
        say(*extension_lines(network, signed, out))


@app.command("list")
def list_revisions(
    genesis: GenesisFile,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Records of revisions.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data directory of a node.")
    ] = None,
    in_json: AsJson = False,
) -> None:
    """List the revisions that a node has, or those in files."""
    if (data_dir is None) == (not files):
        raise UsageError("name either --data-dir or files of revisions")
    network = read_genesis(genesis)
    found = [read_revision(path, network) for path in files or ()]
    rows: list[dict[str, Any]] = [
        revision_json(one) for one in found + (revisions_in(data_dir, network) if data_dir else [])
    ]
    if in_json:
        say_json(rows)
        return
    columns = ("revision", "study", "experiment", "name", "workload", ">samples", ">parameters")
    cells = [
        [short(bytes.fromhex(row["revision"])), *(str(row[c.lstrip(">")]) for c in columns[1:])]
        for row in rows
    ]
    print_table(columns, cells)
