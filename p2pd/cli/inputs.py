"""Files that a person names on the command line, and how they are read."""

import json
import os
from pathlib import Path

from p2pd.core.genesis import Genesis
from p2pd.core.revision import Revision
from p2pd.errors import RemoteError, StoreError, UsageError
from p2pd.io.durable import exists, is_directory, open_file, read_most, storing
from p2pd.io.keys import Ed25519Signer, load_key
from p2pd.io.ledger_form import LEDGER
from p2pd.wire.records import OtherNetworkError, load_genesis, load_revision

MAX_FILE_BYTES = 16 * 2**20


def read_input(path: Path) -> bytes:
    """
    Raises:
        UsageError: there is no such file, or it is far too large for what it should be.
        StoreError: it cannot be read.
    """
    try:
        with storing(path), open_file(path) as file:
            data = read_most(file, MAX_FILE_BYTES)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise UsageError(f"{path}: there is no such file: look at the path") from error
        raise
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {MAX_FILE_BYTES} bytes: is it another file?")
    return data


def read_genesis(path: Path) -> Genesis:
    """Raises StoreError where the file is no genesis that its own authority signed."""
    data = read_input(path)
    try:
        return load_genesis(data).genesis
    except RemoteError as error:
        raise StoreError(f"{path}: not a signed genesis ({error}): get a sound copy") from error


def read_revision(path: Path, genesis: Genesis) -> Revision:
    data = read_input(path)
    try:
        return load_revision(data, genesis).revision
    except OtherNetworkError as error:
        raise UsageError(f"{path}: {error}: name the two that belong together") from error
    except RemoteError as error:
        raise StoreError(
            f"{path}: not a revision of this network ({error}): get a sound copy"
        ) from error


def read_signer(path: Path) -> Ed25519Signer:
    """The key in a key file, or in the data directory of a node."""
    return load_key(path / "key" if is_directory(path) else path)


def parse_config(items: list[str]) -> str:
    """KEY=VALUE pairs as the JSON object that a workload is built from; a VALUE that is no JSON is text."""
    values: dict[str, object] = {}
    for item in items:
        key, separator, text = item.partition("=")
        if not key or not separator:
            raise UsageError(f"--config {item!r} must be KEY=VALUE")
        if key in values:
            raise UsageError(f"--config {key} is given twice: give it once")
        try:
            values[key] = json.loads(text)
        except (ValueError, RecursionError):
            values[key] = text
    return json.dumps(values, sort_keys=True)


def refuse_inside(path: Path) -> None:
    """What a node keeps is its own: it may take a stranger's file for damage, or remove it."""
    for directory in Path(os.path.realpath(path)).parents:
        if exists(directory / LEDGER):
            raise UsageError(f"{path}: in {directory}, which is a node's own: choose another place")


def refuse_existing(path: Path) -> None:
    """For what must not be lost to a second run of the same command."""
    if os.path.lexists(path):
        raise UsageError(f"{path}: exists already: choose another name, or move it away")
