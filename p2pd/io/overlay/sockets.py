"""The UDP socket, and text addresses to socket addresses and back."""

import socket

import trio

from p2pd.errors import RemoteError, UnreachableError, UsageError
from p2pd.io.overlay.doorman import Address
from p2pd.io.overlay.settings import OverlaySettings, join_address, split_address, unspecified

SOCKET_BYTES = 4 * 2**20
"""Asked of the kernel for each direction: the default loses the bursts of a fast sender."""


async def open_socket(listen: str) -> socket.socket:
    """A bound, non-blocking UDP socket.

    Raises:
        UsageError: the address cannot be bound.
    """
    host, port = split_address(listen, "overlay.listen")
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        udp = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"overlay.listen {listen}: {error.strerror}: look at the host") from error
    try:
        udp.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        if family == socket.AF_INET6:
            # [::] takes IPv4 callers too, whatever the machine's default is.
            udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp.bind(address)
    except OSError as error:
        udp.close()
        raise UsageError(
            f"overlay.listen {listen}: {error.strerror}: choose another address"
        ) from error
    return udp


def advertised(settings: OverlaySettings, udp: socket.socket) -> str:
    """What other nodes are told: empty if nobody could dial it."""
    if settings.advertise:
        return settings.advertise
    host, port = udp.getsockname()[:2]
    return "" if unspecified(host) else join_address(host, port)


async def resolve(address: str, family: int) -> Address:
    """The socket address of host:port, for a socket of this family.

    Raises:
        RemoteError: not an address that can be dialled.
        UnreachableError: the host is not known.
    """
    try:
        host, port = split_address(address, "an address")
    except ValueError as error:
        raise RemoteError(str(error)) from error
    if port == 0 or unspecified(host):
        raise RemoteError(f"{address} names no node: it cannot be dialled")
    mapped = socket.AI_V4MAPPED if family == socket.AF_INET6 else 0
    try:
        found = await trio.socket.getaddrinfo(
            host, port, family=family, type=socket.SOCK_DGRAM, flags=mapped
        )
    except OSError as error:
        raise UnreachableError(f"{address}: {error}") from error
    return found[0][4]  # type: ignore[return-value]  # two or four items, by family
