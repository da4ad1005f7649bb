"""Machines behind slow, long lines: `python -m scripts.wan --leaves 4 --rtt-ms 100 --mbit-s 20`.

A hub and so many leaves, each in a network namespace of its own, joined by this process, which keeps each
packet for the time that the line takes. The hub is the namespace that this is started in; it should be a
new one (`unshare --net`), and ends with its processes. Linux, as root or under `unshare --map-root-user`;
no netem is needed. Prints one line of JSON when all is up, and runs until its standard input ends.
Units: seconds, bytes.
"""

import argparse
import fcntl
import heapq
import json
import os
import select
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic

HUB = "10.77.0.1"
NETWORK = "10.77.0.0/16"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
QUEUE_S = 0.15
"""Of packets that wait for a line; what comes then is dropped."""
BURST = 64
PACKET_BYTES = 2048


@dataclass(slots=True)
class Line:
    """One direction of a leaf's line."""

    delay_s: float
    rate_bytes_s: float
    free_s: float = 0.0

    def passes(self, at_s: float, size_bytes: int) -> float | None:
        """When what comes at an instant is at the other end; None if it is dropped."""
        start_s = max(at_s, self.free_s)
        if start_s - at_s > QUEUE_S:
            return None
        self.free_s = start_s + size_bytes / self.rate_bytes_s
        return self.free_s + self.delay_s


@dataclass(slots=True)
class End:
    """The hub, or a leaf. The hub's lines take no time."""

    device: int
    lines: tuple[Line, Line] | None = None
    """From the leaf, and to it."""


@dataclass(slots=True)
class Wan:
    ends: dict[bytes, End]
    """By address."""
    under_way: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    count: int = 0

    def run(self, until: int) -> None:
        """Until that descriptor can be read."""
        poll = select.poll()
        poll.register(until, select.POLLIN)
        sources = {end.device: end for end in self.ends.values()}
        for device in sources:
            poll.register(device, select.POLLIN)
        while True:
            left_s = self.under_way[0][0] - monotonic() if self.under_way else 1.0
            for device, _ in poll.poll(max(0.0, left_s * 1000)):
                if device == until:
                    return
                self._take(sources[device])
            self._deliver()

    def _take(self, source: End) -> None:
        for _ in range(BURST):
            try:
                packet = os.read(source.device, PACKET_BYTES)
            except BlockingIOError:
                return
            target = self.ends.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if target is None:
                continue
            at_s: float | None = monotonic()
            for line in (source.lines and source.lines[0], target.lines and target.lines[1]):
                if line is not None and at_s is not None:
                    at_s = line.passes(at_s, len(packet))
            if at_s is not None:
                self.count += 1
                heapq.heappush(self.under_way, (at_s, self.count, target.device, packet))

    def _deliver(self) -> None:
        now_s = monotonic()
        while self.under_way and self.under_way[0][0] <= now_s:
            _, _, device, packet = heapq.heappop(self.under_way)
            os.write(device, packet)


def address_of(leaf: int) -> str:
    return f"10.77.{leaf + 1}.1"


def _device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
    fcntl.ioctl(device, TUNSETIFF, request)
    return device


def _raise_link(name: str, address: str, route: str, under: Sequence[str]) -> None:
    for command in (
        "ip link set lo up",
        f"ip addr add {address}/32 dev {name}",
        f"ip link set {name} mtu 1500 txqueuelen 5000 up",
        f"ip route add {route} dev {name}",
    ):
        subprocess.run([*under, *command.split()], check=True)


def _packed(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.wan")
    parser.add_argument("--leaves", type=int, required=True)
    parser.add_argument("--rtt-ms", type=float, required=True, help="between a leaf and the hub")
    parser.add_argument("--mbit-s", type=float, required=True, help="each way, of each leaf")
    options = parser.parse_args()
    ends = {_packed(HUB): End(_device("hub"))}
    _raise_link("hub", HUB, NETWORK, ())
    with ExitStack() as stack:
        namespaces = []
        for leaf in range(options.leaves):
            # A namespace lives as long as a process in it; this one ends with its standard input.
            holder = stack.enter_context(
                subprocess.Popen(
                    ["unshare", "--net", "sh", "-c", "echo up; cat"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            assert holder.stdout is not None
            holder.stdout.readline()
            name, under = f"leaf{leaf}", ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
            device = _device(name)
            subprocess.run(["ip", "link", "set", name, "netns", str(holder.pid)], check=True)
            _raise_link(name, address_of(leaf), "default", under)
            rate_bytes_s, delay_s = options.mbit_s * 1e6 / 8, options.rtt_ms / 2000
            lines = Line(delay_s, rate_bytes_s), Line(delay_s, rate_bytes_s)
            ends[_packed(address_of(leaf))] = End(device, lines)
            namespaces.append({"address": address_of(leaf), "under": under})
        print(json.dumps({"hub": HUB, "leaves": namespaces}), flush=True)
        Wan(ends).run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
