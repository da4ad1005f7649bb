"""`p2pd id`."""

from pathlib import Path
from typing import Annotated

import typer

from p2pd.cli.output import AsJson, say, say_json
from p2pd.io.durable import storing
from p2pd.io.keys import Ed25519Signer, load_or_create_key


def command(
    data_dir: Annotated[Path, typer.Option(metavar="DIR", help="Data directory of the node.")],
    in_json: AsJson = False,
) -> None:
    signer = key_of(data_dir)
    if in_json:
        say_json({"peer": signer.peer.hex(), "public_key": signer.key.hex()})
    else:
        say(f"peer id     {signer.peer.hex()}", f"public key  {signer.key.hex()}")


def key_of(data_dir: Path) -> Ed25519Signer:
    """The key of a data directory; both are made if need be."""
    with storing(data_dir):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return load_or_create_key(data_dir / "key")
