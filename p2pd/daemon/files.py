"""The files that a node is given: the signed genesis, the signed revision."""

from pathlib import Path

from p2pd.core.genesis import SignedGenesis
from p2pd.core.revision import SignedRevision
from p2pd.errors import RemoteError, UsageError, advice
from p2pd.io.durable import open_file, read_most
from p2pd.wire.records import OtherNetworkError, load_genesis, load_revision

LARGEST_BYTES = 64 * 2**20


def read_genesis(path: Path) -> SignedGenesis:
    """Raises UsageError: the file cannot be read or is no valid genesis."""
    try:
        return load_genesis(_read(path, "genesis"))
    except RemoteError as error:
        raise UsageError(f"{path}: not a signed genesis ({error}): get a sound copy") from error


def read_revision(path: Path, genesis: SignedGenesis) -> SignedRevision:
    """Raises UsageError: the file cannot be read or is no revision of this network."""
    try:
        return load_revision(_read(path, "revision record"), genesis.genesis)
    except OtherNetworkError as error:
        raise UsageError(f"{path}: {error}: name the two that belong together") from error
    except RemoteError as error:
        raise UsageError(
            f"{path}: not a revision of this network ({error}): get a sound copy"
        ) from error


def _read(path: Path, what: str) -> bytes:
    try:
        with open_file(path) as file:
            data = read_most(file, LARGEST_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the {what}: {advice(error)}") from error
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{path}: too large to be a {what}: name another file")
    return data
