"""Files that survive a crash: written aside, synced, then renamed. Blocking: call from a thread.

Source: rename(2) replaces atomically; fsync(2) of the directory makes the new name durable.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from p2pd.errors import NoRoomError, StoreError, advice

TEMPORARY = "tmp-"
"""Prefix of files that are not finished. Their owner removes leftovers at start."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns what the operating system says about path into a StoreError."""
    try:
        yield
    except OSError as error:
        kind = NoRoomError if error.errno in NO_ROOM else StoreError
        raise kind(f"{path}: {advice(error)}") from error


def exists(path: Path) -> bool:
    """Raises StoreError where that cannot be known: its directory may not be entered, say."""
    with storing(path):
        return path.exists()


def is_directory(path: Path) -> bool:
    """Raises StoreError as exists does."""
    with storing(path):
        return path.is_dir()


def open_file(path: Path) -> BinaryIO:
    """For reading. What is no regular file is refused: a pipe would hold up whoever opens it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "a pipe or a device, not a file: move it away")


def read_most(file: BinaryIO, most_bytes: int) -> bytes:
    """A byte more than that at most, so that more is seen. A small file takes little memory."""
    wanted = min(most_bytes, os.fstat(file.fileno()).st_size) + 1
    data = b""
    # Not by the file itself: of what has nothing to give just now it would return None.
    while len(data) < wanted and (more := os.read(file.fileno(), wanted - len(data))):
        data += more
    return data


def free_bytes(directory: Path) -> int:
    """What this user may still write on the file system of directory."""
    with storing(directory):
        status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def temporary_directory() -> Path:
    """Raises StoreError: there is none that can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise StoreError(
            "no directory for temporary files can be written: set TMPDIR to one that can"
        ) from error


def remove_unfinished(directory: Path) -> None:
    """What a crash left under temporary names. Only for whoever alone writes there."""
    for path in sorted(directory.glob(f"{TEMPORARY}*")):
        with storing(path):
            path.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_aside(directory: Path, data: bytes, *, synced: bool = True) -> Path:
    """A new file of mode 0600 in directory, under a temporary name."""
    descriptor, name = tempfile.mkstemp(prefix=TEMPORARY, dir=directory)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def write_synced(path: Path, data: bytes) -> None:
    """Replaces path by a file on stable storage. Its name is durable once its directory is synced."""
    with storing(path):
        aside = write_aside(path.parent, data)
        try:
            aside.replace(path)
        except OSError:
            aside.unlink()
            raise


def write_durably(path: Path, data: bytes) -> None:
    """Replaces path: after a crash it holds either its old content or data, whole."""
    write_synced(path, data)
    with storing(path):
        sync_directory(path.parent)
