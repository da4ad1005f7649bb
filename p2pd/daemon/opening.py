"""What a data directory holds is what it should: looked at before a node makes anything new in it.

What has gone is said, and not made anew, where making it anew would pass for going on: a key beside its
ledger, a ledger beside the artifacts that it named.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from p2pd.core.genesis import Genesis
from p2pd.core.ids import NetworkId, PeerId, short
from p2pd.core.wording import counted
from p2pd.errors import StoreError, UsageError
from p2pd.io.blob_files import NAME
from p2pd.io.control import NAME as CONTROL
from p2pd.io.durable import is_directory, storing
from p2pd.io.keys import Ed25519Signer, load_or_create_key
from p2pd.io.ledger import SqliteLedger
from p2pd.io.lock import DataDirectory
from p2pd.ports import Table, Write

log = logging.getLogger("p2pd.daemon")

PEER, NETWORK = b"peer", b"network"


@asynccontextmanager
async def open_ledger(
    directory: DataDirectory, genesis: Genesis
) -> AsyncIterator[tuple[Ed25519Signer, SqliteLedger]]:
    """The key and the ledger, which belong to each other and to this network.

    Raises:
        StoreError: a file is damaged, or has gone; the message says which, and what to do.
        UsageError: the directory is another network's.
    """
    if is_directory(directory.path / CONTROL):
        raise StoreError(f"{directory.path / CONTROL}: it is a directory: move it away")
    known = _is_there(directory.ledger)
    if known and not _is_there(directory.key):
        raise StoreError(
            f"{directory.key} is gone, and {directory.ledger} is its: restore the key; to become a new "
            "peer, choose another directory"
        )
    if not known and (held := _artifacts(directory.blobs)):
        raise StoreError(
            f"{directory.ledger} is gone, but not {counted(held, 'artifact')} in {directory.blobs}: restore it, "
            "or move both away to begin anew; a validator that begins anew forgets which votes it sent"
        )
    if known and not _is_there(directory.blobs):
        log.warning("%s is gone: artifacts are fetched again as they are needed", directory.blobs)
    signer = load_or_create_key(directory.key)
    with SqliteLedger(directory.ledger) as ledger:
        await _claim(ledger, directory, signer.peer, genesis.network)
        yield signer, ledger


async def _claim(
    ledger: SqliteLedger, directory: DataDirectory, peer: PeerId, network: NetworkId
) -> None:
    owner, home = ledger.get(Table.OWNER, PEER), ledger.get(Table.OWNER, NETWORK)
    if owner is None or home is None:
        await ledger.commit([Write(Table.OWNER, PEER, peer), Write(Table.OWNER, NETWORK, network)])
        return
    if owner != peer:
        raise StoreError(
            f"{directory.key} is the key of {short(peer)}, {directory.ledger} is of {owner.hex()[:10]}: "
            "bring back the key that belongs to it, or choose another directory"
        )
    if home != network:
        raise UsageError(
            f"node.data_dir {directory.path} is of network {home.hex()[:10]}, network.genesis of "
            f"{short(network)}: choose another directory, or the other genesis"
        )


def _is_there(path: Path) -> bool:
    """Also where it is a symbolic link to nothing."""
    with storing(path):
        return path.exists() or path.is_symlink()


def _artifacts(directory: Path) -> int:
    """Those that are complete."""
    with storing(directory):
        if not directory.is_dir():
            return 0
        names = [NAME.fullmatch(path.name) for path in directory.iterdir()]
    return sum(match is not None and not match[2] for match in names)
