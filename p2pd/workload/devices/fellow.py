"""A fellow of the main worker: `python -m p2pd.workload.devices.fellow`, one process for each further device.

The main worker starts those of its own machine, with `--link FD`. On other machines people do, with
`--main HOST:PORT`, best by torchrun, which numbers them: such a one comes again after the main worker has
ended, until it is told to end. Units: seconds.
"""

import os
import signal
import socket
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from p2pd.core.encoding import decode, encode
from p2pd.errors import WorkloadError
from p2pd.tensors.frames import read_frame, write_frame
from p2pd.workload.contract import Cancelled
from p2pd.workload.devices.crew import LinkLostError
from p2pd.workload.devices.gathering import keep_alive
from p2pd.workload.devices.interfaces import bind_to
from p2pd.workload.devices.messages import FellowBuild, FellowBuilt, FellowTrain, Hello
from p2pd.workload.page import Page, identity
from p2pd.workload.places import data_in
from p2pd.workload.protocol import (
    DESCRIPTORS_LOST,
    LIMIT_BYTES,
    Answer,
    Call,
    Failure,
    Outcome,
    Request,
)
from p2pd.workload.source import failure_line, show_traceback, source_files

if TYPE_CHECKING:
    from p2pd.workload.devices.replica import ReplicaSession

AGAIN_S = 1.0
"""Between two attempts to reach a main worker."""


class FellowServer:
    def __init__(self, link: socket.socket, device: str, data: tuple[Path, ...]) -> None:
        """device and data: where the main worker does not say."""
        self._link, self._device, self._data = link, device, data
        self._identity = identity(link.fileno())
        self._pid = os.getpid()
        self._session: ReplicaSession | None = None
        self._files: tuple[Path, ...] = ()

    def run(self) -> None:
        """Serves the main worker until that ends."""
        with suppress(OSError):  # a reset connection is an end as any other
            while (data := read_frame(self._link.fileno(), LIMIT_BYTES)) is not None:
                request = decode(Request, data, limit_bytes=LIMIT_BYTES)
                answer = self._answer(request)
                self._stay_ours()
                write_frame(self._link.fileno(), encode(answer))

    def _stay_ours(self) -> None:
        """What the user's code has forked does not go on in here, nor what it has opened in place of the link."""
        if os.getpid() != self._pid:
            os._exit(0)
        if identity(self._link.fileno()) != self._identity:
            os._exit(DESCRIPTORS_LOST)

    def _answer(self, request: Request) -> Answer:
        try:
            body = self._carry_out(request)
        except Cancelled:
            return Answer(request.number, Outcome.CANCELLED, b"")
        except LinkLostError:
            return Answer(request.number, Outcome.LOST, b"")
        except BaseException as error:  # noqa: BLE001 - around the user's code, which may raise anything
            if not isinstance(error, WorkloadError) or error.__cause__ is not None:
                show_traceback(error, self._files)
            failure = Failure(failure_line(error, self._files))
            return Answer(request.number, Outcome.FAILED, encode(failure))
        return Answer(request.number, Outcome.DONE, body)

    def _carry_out(self, request: Request) -> bytes:
        if request.call == Call.BUILD:
            return encode(self._build(decode(FellowBuild, request.body)))
        if self._session is None:
            raise WorkloadError("the workload has not been built")
        self._session.train(decode(FellowTrain, request.body), self._link)
        return b""

    def _build(self, build: FellowBuild) -> FellowBuilt:
        self._files = source_files(build.call.module)
        from p2pd.workload.devices.replica import ReplicaSession  # noqa: PLC0415 - torch takes seconds

        data = tuple(Path(os.fsdecode(place)) for place in build.data) or self._data
        with data_in(data):
            self._session = ReplicaSession(build, build.device or self._device)
        return self._session.built()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(prog="p2pd.workload.devices.fellow")
    parser.add_argument("--link", type=int, help="descriptor of a socket to the main worker")
    parser.add_argument("--page", type=int, help="descriptor of shared memory, with --link")
    parser.add_argument("--main", help="host:port where the main worker waits")
    parser.add_argument("--device", default="", help="where to compute; default: cuda:LOCAL_RANK")
    parser.add_argument("--path", action="append", default=[], help="directory of workloads")
    parser.add_argument("--data", action="append", default=[], help="directory of shard files")
    options = parser.parse_args(arguments)
    sys.path[:0] = options.path
    if options.link is not None:
        os.set_inheritable(options.link, False)  # what the user's code starts has no part in this
        # Line by line into the main worker's log, as standard error goes anyway.
        sys.stdout = os.fdopen(1, "w", 1, "utf-8", "backslashreplace", closefd=False)
        Page(options.page).begin(0)
        FellowServer(socket.socket(fileno=options.link), "", ()).run()
    elif options.main is not None:
        _serve_afar(options, os.environ)
    else:
        parser.error("name the main worker: --main host:port")


def _serve_afar(options: Namespace, environment: Mapping[str, str]) -> None:
    """Until SIGTERM or SIGINT: torchrun sends them when one of its processes has ended."""
    from p2pd.workload.devices.placement import gpu_of  # noqa: PLC0415 - as above

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    host, _, port = options.main.rpartition(":")
    rank = int(environment.get("RANK", "0"))
    device = options.device or gpu_of(int(environment.get("LOCAL_RANK", "0")))
    pause = threading.Event()
    while True:
        with suppress(OSError), socket.create_connection((host.strip("[]"), int(port))) as link:
            keep_alive(link)
            bind_to(link.getsockname()[0])
            write_frame(link.fileno(), encode(Hello(rank, device, socket.gethostname())))
            print(f"worker {rank} of the trainer at {options.main}", flush=True)  # noqa: T201
            FellowServer(link, device, tuple(map(Path, options.data))).run()
        pause.wait(AGAIN_S)


if __name__ == "__main__":
    main()
