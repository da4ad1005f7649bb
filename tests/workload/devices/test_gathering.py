import socket
from collections.abc import Iterator

import pytest

from p2pd.core.encoding import encode
from p2pd.errors import WorkloadError
from p2pd.tensors.frames import write_frame
from p2pd.workload.devices.gathering import gathered, received
from p2pd.workload.devices.messages import Hello
from p2pd.workload.protocol import Devices

LIMIT_S = 30.0


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(LIMIT_S)
        yield listening


def come(server: socket.socket, data: bytes) -> socket.socket:
    link = socket.create_connection(server.getsockname())
    write_frame(link.fileno(), data)
    return link


def hello(number: int) -> bytes:
    return encode(Hello(number, "cuda:0", "far"))


def test_workers_are_known_by_their_numbers_and_others_are_sent_away(server: socket.socket) -> None:
    links = [come(server, hello(1)), come(server, b"GET / HTTP/1.1"), come(server, hello(0))]
    found = received(server, 2)
    assert {number: one.number for number, (_, one) in found.items()} == {0: 0, 1: 1}
    assert links[1].recv(1) == b""
    for link in (*links, *(link for link, _ in found.values())):
        link.close()


@pytest.mark.parametrize("number", [0, 2])
def test_a_number_twice_or_beyond_is_told(server: socket.socket, number: int) -> None:
    said = f"on far came as number {number} of 2 workers"
    with (
        come(server, hello(0)),
        come(server, hello(number)),
        pytest.raises(WorkloadError, match=said),
    ):
        received(server, 2)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"^trainer.listen 192.0.2.1:0: .* of this machine$"):
        list(gathered(Devices(listen="192.0.2.1:0", elsewhere=1), 1))
