"""`p2pd heads`: the certified lineage, offline, from the data directory of any node."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli import lineage
from p2pd.cli import verify as checking
from p2pd.cli.inputs import refuse_existing, refuse_inside
from p2pd.cli.lineage_tables import print_height, print_lineage
from p2pd.cli.origin import check_origin, origin_of
from p2pd.cli.output import AsJson, group, say, say_json
from p2pd.cli.reading import open_chain
from p2pd.core.wording import counted
from p2pd.errors import RemoteError, StoreError
from p2pd.io.lock import holder_of

app = group()

GenesisFile = Annotated[
    Path, typer.Option("--genesis", metavar="FILE", help="Genesis file of the network.")
]
DataDir = Annotated[Path, typer.Option(metavar="DIR", help="Data directory of a node.")]
RevisionName = Annotated[
    str,
    typer.Option(
        "--revision", metavar="NAME", help="Name or id (hex, its beginning will do), if several."
    ),
]


@app.command("list")
def list_heads(
    genesis: GenesisFile, data_dir: DataDir, revision: RevisionName = "", in_json: AsJson = False
) -> None:
    """List all heights: outcome, head, cohort, metric."""
    with open_chain(genesis, data_dir, revision) as chain:
        rows = list(lineage.rows(chain))
        if in_json:
            say_json([row.as_json() for row in rows])
        else:
            print_lineage(chain.setting.revision, rows)


@app.command()
def show(
    genesis: GenesisFile,
    data_dir: DataDir,
    height: Annotated[
        str, typer.Argument(metavar="HEIGHT", help="A height, or: latest.")
    ] = "latest",
    revision: RevisionName = "",
    in_json: AsJson = False,
) -> None:
    """Show one height: cohort with verdicts, votes, leases, standing."""
    with open_chain(genesis, data_dir, revision) as chain:
        found = lineage.detail(chain, lineage.parse_height(height, chain))
    if in_json:
        say_json(found)
    else:
        print_height(found)


@app.command()
def verify(
    genesis: GenesisFile,
    data_dir: DataDir,
    revision: RevisionName = "",
    origin_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data directory with the chain it goes on from."),
    ] = None,
    in_json: AsJson = False,
) -> None:
    """Check every decision and every artifact with nothing but the genesis."""
    with open_chain(genesis, data_dir, revision) as chain:
        result = checking.verify(chain, live=holder_of(data_dir) is not None)
        with origin_of(chain, genesis, origin_dir) as old:
            result = result.and_found(check_origin(chain.setting.revision, old))
    if in_json:
        say_json(result.as_json())
    else:
        say(*result.lines())
    if not result.sound:
        raise typer.Exit(1)


@app.command()
def export(
    *,
    genesis: GenesisFile,
    data_dir: DataDir,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the safetensors file goes.")],
    height: Annotated[
        str, typer.Argument(metavar="HEIGHT", help="A height, or: latest.")
    ] = "latest",
    revision: RevisionName = "",
    in_json: AsJson = False,
) -> None:
    """Write the head of a height as a plain safetensors file."""
    refuse_existing(out)
    refuse_inside(out)
    with open_chain(genesis, data_dir, revision) as chain:
        record = lineage.record_at(chain, lineage.parse_height(height, chain))
        head = record.decision.head
        if not checking.is_here(chain, head):
            raise StoreError(
                f"{data_dir}: the head of height {record.decision.height} is not kept here: "
                "export it from a validator's data directory"
            )
        try:
            size_bytes = checking.export(chain, head, out).size_bytes
        except RemoteError as error:
            raise StoreError(
                f"blob {head.hex()} in {data_dir}: {error}: export it from another node's directory"
            ) from error
    if in_json:
        say_json({"file": str(out), "head": head.hex(), "size_bytes": size_bytes})
    else:
        say(
            f"{out}: head {head.hex()} of height {record.decision.height}, {counted(size_bytes, 'byte')}"
        )
