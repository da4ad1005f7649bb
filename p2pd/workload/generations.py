"""Files of a trainer's own directory, one for each of its last leases: what each left for those after it.

A file is named KIND-HEIGHT-DIGEST.safetensors, by the height of the lease's plan and the hash of what is
in it. It is written aside and then renamed. A lease uses what is below its own height, so that training
it again, after a crash, starts from the same. Units: heights of plans.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeVar

from p2pd.core.artifact import CHUNK_BYTES, Manifest
from p2pd.errors import RemoteError, StoreError, WorkloadError, advice
from p2pd.tensors.files import TensorFile, sync_directory

DIGEST_CHARACTERS = 32
NUMBERED = r"-([0-9]{1,20})-([0-9a-f]{32})\.safetensors"

T = TypeVar("T")

Write = Callable[[Path], Manifest]
"""Makes a file that is not there yet."""


class Generations:
    def __init__(self, directory: Path, kind: str) -> None:
        """kind: of small letters."""
        self._directory = directory
        self._kind = kind
        self._name = re.compile(kind + NUMBERED)
        self._unsynced: Path | None = None

    def below(self, height: int) -> list[int]:
        """Of which leases before that height there are files, the newest first."""
        return sorted((found for found in self._files() if found < height), reverse=True)

    def read(self, height: int, take: Callable[[TensorFile], T]) -> T | None:
        """What take makes of the file. None if there is none, or if it is not what was written: that is printed."""
        path = self._files().get(height)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                digest = _digest_of(file)
            if digest == path.stem.rpartition("-")[2]:
                return take(TensorFile(path))
            why = "its bytes are not those that were written"
        except (RemoteError, StoreError, WorkloadError) as error:
            why = str(error)
        except OSError as error:
            why = advice(error)
        # Losing it costs a little once; stopping for it would cost the trainer.
        say(f"{path} is damaged and was not used: {why}")
        return None

    def keep(self, height: int, write: Write, most: int) -> None:
        """Takes the file that write makes, and forgets all but the last ones. Durable after sync.

        Raises:
            StoreError: the disk is full or failing.
        """
        aside = self._directory / f"{self._kind}.writing"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            aside.unlink(missing_ok=True)
            digest = _digest(write(aside).chunks)
            path = self._directory / f"{self._kind}-{height}-{digest}.safetensors"
            aside.replace(path)
            self._unsynced = path
            self._forget(height, path, most)
        except OSError as error:
            raise StoreError(f"{self._directory}: {advice(error)}") from error

    def sync(self) -> None:
        """Puts what was kept last on stable storage, its name too.

        Raises:
            StoreError: the disk is full or failing.
        """
        path, self._unsynced = self._unsynced, None
        if path is None:
            return
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            for directory in (self._directory, self._directory.parent):  # which may be new as well
                sync_directory(directory)
        except OSError as error:
            raise StoreError(f"{path}: {advice(error)}") from error

    def _forget(self, height: int, newest: Path, most: int) -> None:
        """Also what an earlier training of the same lease left."""
        kept = sorted(self._files())[-most:]
        for path in self._directory.iterdir():
            match = self._name.fullmatch(path.name)
            if match and path != newest and (int(match[1]) == height or int(match[1]) not in kept):
                path.unlink(missing_ok=True)

    def _files(self) -> dict[int, Path]:
        if not self._directory.is_dir():
            return {}
        found = ((self._name.fullmatch(path.name), path) for path in self._directory.iterdir())
        return {int(match[1]): path for match, path in found if match}


@contextmanager
def at_a_loss() -> Iterator[None]:
    """What cannot be kept costs a restart something, but not the lease."""
    try:
        yield
    except StoreError as error:
        say(f"{error}; a restart may lack what this lease left")


def say(line: str) -> None:
    print(line)  # noqa: T201 - the worker's log


def _digest(chunks: Iterable[bytes]) -> str:
    return sha256(b"".join(chunks)).hexdigest()[:DIGEST_CHARACTERS]


def _digest_of(file: BinaryIO) -> str:
    chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
    return _digest(sha256(chunk).digest() for chunk in chunks)
