"""Many datagrams with few calls, and one call each where the kernel or the way cannot do better."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from p2pd.io.overlay.datagrams import RUN_BYTES_MAX, RUN_DATAGRAMS_MAX, Datagrams


class Counted(socket.socket):
    """A UDP socket that counts what is asked of the kernel, and may refuse to cut up runs."""

    sent = received = 0
    refuses: int | None = None

    def sendmsg(self, *arguments: Any) -> int:
        self.sent += 1
        if self.refuses is not None:
            raise OSError(self.refuses, "a card that cannot")
        return super().sendmsg(*arguments)

    def sendto(self, *arguments: Any) -> int:
        self.sent += 1
        return super().sendto(*arguments)

    def recvmsg(self, *arguments: Any) -> Any:
        self.received += 1
        return super().recvmsg(*arguments)


@contextmanager
def sockets(count: int) -> Iterator[list[Counted]]:
    made = [Counted(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for udp in made:
            udp.setblocking(False)
            udp.bind(("127.0.0.1", 0))
        yield made
    finally:
        for udp in made:
            udp.close()


def received(datagrams: Datagrams, most: int = 10**6) -> list[bytes]:
    return [data for run, _ in datagrams.receive(most) for data in run]


SIZES = [1200] * 5 + [40] + [1200] * 2 + [1300, 1300, 1200, 1200, 1, 2, 16_000] + [16_000] * 6


@pytest.mark.parametrize("joined", [True, False])
def test_datagrams_come_out_as_they_went_in(joined: bool) -> None:
    with sockets(2) as (here, there):
        out, back = Datagrams(here), Datagrams(there)
        for end in (out, back):
            end._joined_in = end._joined_in and joined
            end._joined_out = end._joined_out and joined
        if not joined:
            there.setsockopt(socket.IPPROTO_UDP, 104, 0)
        sent = [bytes([n]) * size for n, size in enumerate(SIZES)]
        out.send([(data, there.getsockname()) for data in sent])
        assert received(back) == sent
        assert [source for _, source in back.receive(1)] == []


def test_a_run_to_one_address_is_one_call_and_arrives_in_one() -> None:
    with sockets(3) as (here, there, elsewhere):
        out, back = Datagrams(here), Datagrams(there)
        run = [(bytes(1200), there.getsockname())] * 20
        out.send([*run, (bytes(1200), elsewhere.getsockname())])
        assert here.sent == 2
        assert received(back) == [bytes(1200)] * 20
        assert there.received < 20


def test_a_run_is_no_longer_than_the_kernel_takes() -> None:
    with sockets(2) as (here, there):
        out, back = Datagrams(here), Datagrams(there)
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
        count = 2 * RUN_DATAGRAMS_MAX + 3
        for size in (100, RUN_BYTES_MAX // 3):
            here.sent = 0
            out.send([(bytes(size), there.getsockname())] * count)
            assert count // RUN_DATAGRAMS_MAX <= here.sent < count
            assert received(back) == [bytes(size)] * count


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL])
def test_where_the_way_cannot_cut_up_runs_each_datagram_is_sent_alone(code: int) -> None:
    with sockets(2) as (here, there):
        out, back = Datagrams(here), Datagrams(there)
        here.refuses = code
        for _ in range(2):
            out.send([(bytes(1200), there.getsockname())] * 3)
        assert here.sent == 1 + 3 + 3
        assert received(back) == [bytes(1200)] * 6


def test_a_full_buffer_loses_datagrams_and_raises_nothing() -> None:
    with sockets(2) as (here, there):
        out = Datagrams(here)
        here.refuses = errno.EAGAIN
        out.send([(bytes(1200), there.getsockname())] * 3)
        assert here.sent == 1
        here.refuses = None
        out.send([(bytes(1200), there.getsockname())] * 3)
        assert received(Datagrams(there)) == [bytes(1200)] * 3


def test_a_batch_ends_soon_after_as_many_as_were_asked_for() -> None:
    with sockets(2) as (here, there):
        out, back = Datagrams(here), Datagrams(there)
        for _ in range(3):
            out.send([(bytes(100), there.getsockname())] * 20)
        first = received(back, 1)
        assert 1 <= len(first) <= 20
        assert len(first) + len(received(back)) == 60


def test_an_error_of_an_earlier_send_does_not_end_a_batch() -> None:
    with sockets(3) as (here, there, gone):
        out = Datagrams(here)
        here.connect(gone.getsockname())  # so that the kernel tells
        gone.close()
        out.send([(b"?", there.getsockname())])
        here.send(b"?")
        assert received(out, 3) == []
