"""What this machine does with bytes when nothing of p2pd is around them. Seconds, bytes."""

import socket
import tempfile
import threading
from collections.abc import Callable
from os import fsync
from pathlib import Path
from time import perf_counter

import numpy as np

BLOCK_BYTES = 2**20
BEST_OF = 3


def best_s(work: Callable[[], object], times: int = BEST_OF) -> float:
    """Of several runs: whatever else the machine does can only make it slower."""
    found = []
    for _ in range(times):
        started_s = perf_counter()
        work()
        found.append(perf_counter() - started_s)
    return min(found)


def memcpy_bytes_s(size_bytes: int) -> float:
    """Copying one array onto another, both in memory already."""
    source = np.ones(size_bytes, np.uint8)
    target = np.zeros(size_bytes, np.uint8)
    return size_bytes / best_s(lambda: np.copyto(target, source))


def tcp_bytes_s(size_bytes: int) -> float:
    """From one thread to another over a loopback TCP connection."""
    return size_bytes / best_s(lambda: _send_over_tcp(size_bytes))


def _send_over_tcp(size_bytes: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=(server.getsockname(), size_bytes))
        sender.start()
        connection, _ = server.accept()
        with connection:
            block = bytearray(BLOCK_BYTES)
            while connection.recv_into(block):
                pass
        sender.join()


def _send(address: tuple[str, int], size_bytes: int) -> None:
    block = bytes(BLOCK_BYTES)
    with socket.create_connection(address) as connection:
        for start in range(0, size_bytes, BLOCK_BYTES):
            connection.sendall(block[: size_bytes - start])


def synced_write_s(size_bytes: int, directory: Path) -> float:
    """A new file on stable storage."""
    data = bytes(size_bytes)

    def write() -> None:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(data)
            file.flush()
            fsync(file.fileno())

    return best_s(write)
