"""The data directory of a node: what lies where, and one process at a time.

The lock is the kernel's (flock), so it ends with its holder, however that ends.
"""

import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from p2pd.errors import StoreError
from p2pd.io.durable import exists, remove_unfinished, storing
from p2pd.io.ledger_form import LEDGER

LOCKS = Path("/proc/locks")
PID_BYTES = 20
"""Written over the old one, never truncated first: it must work on a full disk."""


class DataDirectory:
    def __init__(self, path: Path) -> None:
        """Makes the directory if need be and takes its lock.

        Raises:
            StoreError: another process holds it, or it cannot be used; the message says which.
        """
        self.path = path.absolute()
        self.ledger = self.path / LEDGER
        self.blobs = self.path / "blobs"
        self.key = self.path / "key"
        self.log = self.path / "log"
        self.trainer = self.path / "trainer"
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with storing(self.path):
            self.path.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = _take_lock(self.path)
        try:
            remove_unfinished(self.path)
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Releases the lock. Its file stays: removing it would let two processes hold one each."""
        os.close(self._descriptor)


def _take_lock(directory: Path) -> int:
    path = directory / "lock"
    with storing(path):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            _check_kind(descriptor, path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(descriptor, f"{os.getpid():<{PID_BYTES - 1}}\n".encode(), 0)
        except BlockingIOError as error:
            holder = _written(descriptor)
            os.close(descriptor)
            who = "another process" if holder is None else f"process {holder}"
            raise StoreError(
                f"data directory {directory} is in use by {who}: "
                "stop it, or choose another directory with --data-dir"
            ) from error
        except (OSError, StoreError):
            os.close(descriptor)
            raise
    return descriptor


def holder_of(directory: Path) -> int | None:
    """The process that holds the lock of a data directory; None where nobody does.

    Raises:
        StoreError: somebody does, and the file does not say who.
    """
    path = directory / "lock"
    if not exists(path):
        return None
    if exists(LOCKS):
        with storing(path):
            return _listed(path)
    with storing(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _written(descriptor)
            if holder is None:
                raise StoreError(
                    f"{path}: held by a process that it does not name: end the node of that directory"
                ) from None
            return holder
        finally:
            os.close(descriptor)
    return None


def _listed(path: Path) -> int | None:
    """As holder_of. What the file says may be of an earlier process, whose number another has by now.

    Source: proc_locks(5).
    """
    found = path.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in LOCKS.read_text().splitlines():
        words = line.split()
        if "FLOCK" in words and "WRITE" in words and place in words:
            holder = int(words[words.index(place) - 1])
            if holder < 1:  # it is in a container of its own
                raise StoreError(
                    f"{path}: held by a process that cannot be seen from here: end it there"
                )
            return holder
    return None


def _written(descriptor: int) -> int | None:
    """The process id in a lock file, if it holds one."""
    text = os.pread(descriptor, PID_BYTES, 0).decode("ascii", "replace").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _check_kind(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise StoreError(f"{path}: a pipe or a device, not a file: move it away")
