"""`p2pd network`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.founding import as_json, describe, found, read_founding, warnings
from p2pd.cli.inputs import read_genesis, refuse_existing
from p2pd.cli.output import AsJson, group, say, say_json, warn
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.io.durable import write_durably

app = group()

IN_FILE = "[required here or in --from]"
Keys = list[str] | None


@app.command()
def create(  # noqa: PLR0913 - one parameter per option
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the signed genesis goes.")],
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="TOML file with a table [network]; options win."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Name of the network.  {IN_FILE}")
    ] = None,
    authority: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=f"Key file, or data directory with a key, that signs; repeat.  {IN_FILE}",
        ),
    ] = None,
    authority_key: Annotated[
        Keys,
        typer.Option(metavar="PUBKEY", help="Of the authority too, without signing now; repeat."),
    ] = None,
    threshold: Annotated[
        int | None,
        typer.Option(metavar="N", help="Authority keys that must sign; by default over half."),
    ] = None,
    validator: Annotated[
        Keys,
        typer.Option(
            metavar="PUBKEY[:WEIGHT]",
            help=f"Who votes, of weight 1 if not said; repeat.  {IN_FILE}",
        ),
    ] = None,
    quorum: Annotated[
        int | None,
        typer.Option(metavar="N", help="Weight that decides; by default over two thirds."),
    ] = None,
    admission: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Who may train: open.")
    ] = None,
    in_json: AsJson = False,
) -> None:
    """Write the signed genesis of a network, and say what its quorum survives."""
    options = {
        ("--name", "name"): name,
        ("--authority", "authority"): authority,
        ("--authority-key", "authority_keys"): authority_key,
        ("--threshold", "threshold"): threshold,
        ("--validator", "validators"): validator,
        ("--quorum", "quorum"): quorum,
        ("--admission", "admission"): admission,
    }
    refuse_existing(out)
    signed = found(read_founding(from_file, options))
    write_durably(out, encode(signed))
    _print(signed.genesis, in_json=in_json)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A genesis file.")],
    in_json: AsJson = False,
) -> None:
    """Check a genesis file and describe the network."""
    _print(read_genesis(file), in_json=in_json)


def _print(genesis: Genesis, *, in_json: bool) -> None:
    if in_json:
        say_json(as_json(genesis))
        return
    say(*describe(genesis))
    for line in warnings(genesis):
        warn(line)
