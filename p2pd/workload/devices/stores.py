"""Where the workers of one lease tell each other how they are reached: a file on one machine, else a port.

Neither is found by the name of a host, and neither has a fixed number.
"""

import os
from datetime import timedelta
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server

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
    """For workers of several machines, at an address of the main one, and its port."""
    # By itself, it would listen on all addresses of this machine.
    server = create_server((host, 0), family=AF_INET6 if ":" in host else AF_INET)
    port = server.getsockname()[1]
    store = TCPStore(
        host,
        port,
        size,
        True,
        PATIENCE,
        wait_for_workers=False,
        master_listen_fd=server.detach(),
    )
    return store, port


def reached(host: str, port: int, size: int) -> Store:
    """The same in another worker."""
    return TCPStore(host, port, size, False, PATIENCE)
