"""Datagrams in and out of the one UDP socket, many at a time. Bytes.

A system call costs as much as encrypting a packet. Where the kernel knows how, a run of datagrams to one
address goes out in one call that the kernel cuts up, and those that came in a row come in one.
Source: Linux udp(7), UDP_SEGMENT and UDP_GRO; elsewhere each datagram is a call of its own.
"""

import errno
import socket
import sys
from collections.abc import Iterable, Iterator

from p2pd.io.overlay.doorman import Address

DATAGRAM_BYTES_MAX = 2**16
RUN_BYTES_MAX = 65_000
"""An IP packet holds less than 65536 bytes, also before the kernel cuts it up."""
RUN_DATAGRAMS_MAX = 64
UDP_SEGMENT, UDP_GRO = 103, 104
SIZE_BYTES = 4
CANNOT_CUT = (errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP)
"""The way to this address cannot do it: a network card without checksums, a smaller MTU."""

Datagram = tuple[bytes, Address]


class Datagrams:
    def __init__(self, udp: socket.socket) -> None:
        """udp: bound, non-blocking."""
        self.socket = udp
        self._joined_in = _joins_received(udp)
        self._joined_out = self._joined_in

    def receive(self, most: int) -> Iterator[tuple[list[bytes], Address]]:
        """What has arrived: most datagrams, and the rest of the call that brought the last of them.

        Those that came in a row from one address are together.
        """
        run: list[bytes] = []
        source: Address | None = None
        count = 0
        while count < most:
            try:
                cut, address = self._receive_run()
            except BlockingIOError:
                break
            except OSError:
                # An ICMP error of an earlier send: anyone could have forged it.
                count += 1
                continue
            if source is not None and address != source:
                yield run, source
                run = []
            source = address
            run += cut
            count += len(cut)
        if source is not None:
            yield run, source

    def send(self, datagrams: Iterable[Datagram]) -> None:
        """A full buffer or no route loses datagrams, which QUIC repairs or times out."""
        for run, address in _runs(datagrams):
            if len(run) == 1 or not self._joined_out or not self._send_run(run, address):
                for data in run:
                    self._send_one(data, address)

    def _receive_run(self) -> tuple[list[bytes], Address]:
        """What one call brings."""
        if not self._joined_in:
            data, address = self.socket.recvfrom(DATAGRAM_BYTES_MAX)
            return [data], address
        data, more, _, address = self.socket.recvmsg(
            DATAGRAM_BYTES_MAX, socket.CMSG_SPACE(SIZE_BYTES)
        )
        for level, kind, value in more:
            if level == socket.IPPROTO_UDP and kind == UDP_GRO:
                return _cut(data, int.from_bytes(value[:SIZE_BYTES], sys.byteorder)), address
        return [data], address

    def _send_run(self, run: list[bytes], address: Address) -> bool:
        """False if it has to be sent one by one, this time and from now on."""
        size = len(run[0]).to_bytes(2, sys.byteorder)
        try:
            self.socket.sendmsg(run, [(socket.IPPROTO_UDP, UDP_SEGMENT, size)], 0, address)
        except OSError as error:
            if error.errno in CANNOT_CUT:
                self._joined_out = False
                return False
        return True

    def _send_one(self, data: bytes, address: Address) -> None:
        try:
            self.socket.sendto(data, address)
        except OSError:
            return


def _joins_received(udp: socket.socket) -> bool:
    if sys.platform != "linux":
        return False
    try:
        udp.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True


def _cut(data: bytes, size: int) -> list[bytes]:
    """Datagrams of that size; the last may be shorter."""
    if not 0 < size < len(data):
        return [data]
    return [data[start : start + size] for start in range(0, len(data), size)]


def _runs(datagrams: Iterable[Datagram]) -> Iterator[tuple[list[bytes], Address]]:
    """Cuts into runs to one address, of one size but for the last, which may be shorter."""
    run: list[bytes] = []
    target: Address | None = None
    room = 0
    for data, address in datagrams:
        if run and (
            address != target
            or len(data) > len(run[0])
            or len(run[-1]) < len(run[0])
            or len(data) > room
            or len(run) == RUN_DATAGRAMS_MAX
        ):
            assert target is not None
            yield run, target
            run = []
        if not run:
            target, room = address, RUN_BYTES_MAX
        run.append(data)
        room -= len(data)
    if run:
        assert target is not None
        yield run, target
