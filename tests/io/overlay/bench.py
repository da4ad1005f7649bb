"""Nodes for the tests of the overlay, and a lossy relay to put between two of them. Seconds."""

import socket
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import trio

from p2pd.core.hello import Hello
from p2pd.io.overlay import Identity, OverlaySettings, QuicTransport
from tests.ports.transport_contract import HELLO

SETTINGS = OverlaySettings()


def identity(name: str) -> Identity:
    return Identity(sha256(name.encode()).digest())


def transport(
    name: str, hello: Hello = HELLO, settings: OverlaySettings = SETTINGS
) -> QuicTransport:
    return QuicTransport(settings, identity(name), lambda address: replace(hello, address=address))


def udp() -> trio.socket.SocketType:
    return trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


class Relay:
    """Passes datagrams between callers and one target, as long as passes says so."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.passes: Callable[[bytes], bool] = lambda datagram: True
        self.address = ""
        self._target = (host, int(port))
        self._back: dict[tuple[str, int], trio.socket.SocketType] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with udp() as front:
            await front.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{front.getsockname()[1]}"
            async with trio.open_nursery() as nursery:
                task_status.started()
                try:
                    while True:
                        data, caller = await front.recvfrom(2**16)
                        if caller not in self._back:
                            back = self._back[caller] = udp()
                            await back.bind(("127.0.0.1", 0))
                            nursery.start_soon(self._return, front, back, caller)
                        if self.passes(data):
                            await self._back[caller].sendto(data, self._target)
                finally:
                    for back in self._back.values():
                        back.close()

    async def _return(
        self,
        front: trio.socket.SocketType,
        back: trio.socket.SocketType,
        caller: tuple[str, int],
    ) -> None:
        while True:
            data, _ = await back.recvfrom(2**16)
            if self.passes(data):
                await front.sendto(data, caller)
