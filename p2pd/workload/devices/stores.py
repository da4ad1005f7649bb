"""Where the workers of one lease tell each other how they are reached: a file on one machine, else a port.

Neither is found by the name of a host, and neither has a fixed number.
"""

import os
from datetime import timedelta
from pathlib import Path

from torch.distributed import (  # type: ignore[attr-defined]  # public, and not said to be
    FileStore,
    Store,
    TCPStore,
)

__all__ = ["PATIENCE", "Store", "beside", "hosted", "reached"]

PATIENCE = timedelta(days=1)
"""Of torch.distributed. Who hangs is ended by the deadline of the daemon's call, long before."""


def beside(path: Path, size: int) -> Store:
    """For workers of one machine, which all name that path."""
    return FileStore(os.fspath(path), size)


def hosted(host: str, size: int) -> tuple[Store, int]:
    """For workers of several machines, in the main one, and its port."""
    store = TCPStore(host, 0, size, True, PATIENCE, wait_for_workers=False)
    return store, store.port


def reached(host: str, port: int, size: int) -> Store:
    """The same in another worker."""
    return TCPStore(host, port, size, False, PATIENCE)
