"""Workers on other machines, as they come to the main one. Units: seconds.

Only over a network whose hosts are trusted: who comes is taken, as torch.distributed itself does it.
"""

import select
import socket
from collections.abc import Iterator

from p2pd.core.encoding import decode
from p2pd.core.wording import counted
from p2pd.errors import RemoteError, WorkloadError
from p2pd.tensors.frames import read_frame
from p2pd.workload.devices.crew import Fellow
from p2pd.workload.devices.messages import Hello
from p2pd.workload.protocol import Devices

HELLO_BYTES = 1024
HELLO_S = 5.0
"""How long one that has connected may take to say who it is."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 4}
"""A machine that is gone without a word is found out in seven seconds; where these are known."""


def gathered(devices: Devices, first: int) -> Iterator[tuple[Fellow, Hello]]:
    """The workers from elsewhere in the order of their ranks. Waits until all have come.

    Raises:
        WorkloadError: they cannot be waited for here, or two come with one number.
    """
    host, _, port = devices.listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        server = socket.create_server((host.strip("[]"), int(port)), family=family)
    except OSError as error:
        raise WorkloadError(
            f"trainer.listen {devices.listen}: {error.strerror}: name an address of this machine"
        ) from error
    with server:
        at = f"{host}:{server.getsockname()[1]}"
        print(f"waiting at {at} for {counted(devices.elsewhere, 'worker')} on other machines")  # noqa: T201
        come = received(server, devices.elsewhere)
    for number in sorted(come):
        link, hello = come[number]
        yield Fellow(first + number, link, None), hello


def received(server: socket.socket, count: int) -> dict[int, tuple[socket.socket, Hello]]:
    """Whoever comes and says that it is a worker, by number.

    Raises:
        WorkloadError: two come with one number, or one with a higher one than there are.
    """
    come: dict[int, tuple[socket.socket, Hello]] = {}
    while len(come) < count:
        link, _ = server.accept()
        hello = _hello_of(link)
        if hello is None:
            link.close()
            continue
        if not 0 <= hello.number < count or hello.number in come:
            for other in (link, *(other for other, _ in come.values())):
                other.close()
            raise WorkloadError(
                f"a worker on {hello.host} came as number {hello.number} of {counted(count, 'worker')}:"
                " start each once, by torchrun with as many processes as trainer.elsewhere says"
            )
        come[hello.number] = link, hello
    return come


def keep_alive(link: socket.socket) -> None:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        option = vars(socket).get(name)
        if option is not None:
            link.setsockopt(socket.IPPROTO_TCP, option, value)


def _hello_of(link: socket.socket) -> Hello | None:
    """None: something else has connected."""
    try:
        if not select.select([link], [], [], HELLO_S)[0]:
            return None
        data = read_frame(link.fileno(), HELLO_BYTES)
        keep_alive(link)
        return None if data is None else decode(Hello, data, limit_bytes=HELLO_BYTES)
    except (OSError, RemoteError):
        return None
