"""A line of so many bytes a second to one node, by UDP. Seconds, bytes.

python -m tests.faults.stated.narrow BYTES_S ADDRESS

Prints its own port; for each line that it reads, how many bytes it has carried.
"""

import socket
import sys
from collections import deque

import trio

from p2pd.bench.children import tell_parent

QUEUED_MOST = 16
"""Datagrams that wait; more are lost, as on any line that is full."""
DATAGRAM_BYTES = 2**16

Place = tuple[str, int]


class Line:
    """What callers send passes at once; what comes back waits for its turn."""

    def __init__(self, bytes_s: float, target: Place) -> None:
        self.carried = 0
        self._bytes_s = bytes_s
        self._target = target
        self._front = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._backs: dict[Place, trio.socket.SocketType] = {}
        self._queue: deque[tuple[bytes, Place]] = deque()
        self._filled = trio.Event()

    async def run(self) -> None:
        await self._front.bind(("127.0.0.1", 0))
        tell_parent(port=self._front.getsockname()[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drip)
            while True:
                data, caller = await self._front.recvfrom(DATAGRAM_BYTES)
                if caller not in self._backs:
                    back = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    await back.bind(("127.0.0.1", 0))
                    self._backs[caller] = back
                    nursery.start_soon(self._listen, back, caller)
                await self._backs[caller].sendto(data, self._target)

    async def _listen(self, back: trio.socket.SocketType, caller: Place) -> None:
        while True:
            data, _ = await back.recvfrom(DATAGRAM_BYTES)
            if len(self._queue) < QUEUED_MOST:
                self._queue.append((data, caller))
                self._filled.set()

    async def _drip(self) -> None:
        while True:
            while self._queue:
                data, caller = self._queue.popleft()
                await trio.sleep(len(data) / self._bytes_s)
                await self._front.sendto(data, caller)
                self.carried += len(data)
            self._filled = trio.Event()
            await self._filled.wait()


async def serve(bytes_s: float, target: Place) -> None:
    line = Line(bytes_s, target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.run)
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            tell_parent(carried=line.carried)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    host, _, port = sys.argv[2].rpartition(":")
    trio.run(serve, float(sys.argv[1]), (host, int(port)))
