"""Over which network interface workers talk: chosen by address, so that no name is ever resolved.

torch.distributed would take the interface that the machine's own name leads to: none where the name leads
nowhere, the wrong one where it leads to loopback. What is set already stays. Source: netdevice(7).
"""

import fcntl
import os
import socket
import struct
import sys
from ipaddress import ip_address

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
SIOCGIFADDR = 0x8915
NAME_BYTES, ADDRESS = 256, slice(20, 24)
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


def bind_to(address: str) -> None:
    """Has all that this process and those that it starts do by torch.distributed run over that interface."""
    name = LOOPBACK if ip_address(address).is_loopback else _named(address)
    if name:
        for variable in VARIABLES:
            os.environ.setdefault(variable, name)


def _named(address: str) -> str:
    """Of an IPv4 address on Linux; else empty, and torch finds one by itself."""
    if sys.platform != "linux" or ip_address(address).version != 4:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack(f"{NAME_BYTES}s", name.encode())
            try:
                answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(answer[ADDRESS]) == address:
                return name
    return ""
