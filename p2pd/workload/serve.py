"""The worker process: `python -m p2pd.workload.serve --requests FD --answers FD --page FD --parent PID`.

Reads requests from one inherited pipe and writes answers to another; says how far it is in a page of
shared memory. Standard output and error belong to the user's code. Ends when the pipe does, and dies with
the daemon, and with it all that the user's code has started.
"""

import gc
import os
import resource
import select
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from p2pd.core.encoding import decode, encode
from p2pd.errors import OtherWorkloadError, WorkloadError, printable
from p2pd.subreaper import keep
from p2pd.tensors.frames import read_frame, write_frame
from p2pd.workload.contract import Cancelled
from p2pd.workload.devices.crew import FellowError
from p2pd.workload.page import Page, identity
from p2pd.workload.places import data_in
from p2pd.workload.protocol import (
    DESCRIPTORS_LOST,
    LIMIT_BYTES,
    Answer,
    BuildCall,
    Call,
    EvaluateCall,
    Failure,
    InitialCall,
    LookCall,
    Outcome,
    Request,
    TrainCall,
)
from p2pd.workload.share import Share
from p2pd.workload.source import failure_line, show_traceback, source_files

if TYPE_CHECKING:
    from p2pd.workload.defaults import Defaults
    from p2pd.workload.session import Session


FAILURES_MOST = 3
"""After so many leases in a row that failed, it is what the one before them left that may be wrong: it is not used."""


class Server:
    def __init__(self, requests: int, answers: int, page: int, share: float = 1.0) -> None:
        self._requests = requests
        self._answers = answers
        self._identities = [identity(descriptor) for descriptor in (requests, answers)]
        self._page = Page(page)
        self._share = Share(share)
        self._pid = os.getpid()
        self._session: Session | None = None
        self._number = 0
        """Of the call that is under way."""
        self._failures = 0
        """Leases in a row."""
        self._untouched: Defaults | None = None
        """As they were before any of the user's code ran."""
        self._files: tuple[Path, ...] = ()

    def run(self) -> None:
        while (request := self._next()) is not None:
            if request.call == Call.CANCEL:
                continue  # it was for a call that has been answered meanwhile
            self._page.begin(request.limit_ms / 1000)
            self._number = request.number
            answer = self._answer(request)
            self._share.leave()
            self._page.end()
            self._stay_ours()
            write_frame(self._answers, encode(answer))
            if self._session is not None and request.call == Call.TRAIN:
                self._session.settle()

    def _answer(self, request: Request) -> Answer:
        try:
            body = encode(self._carry_out(request))
        except Cancelled:
            return Answer(request.number, Outcome.CANCELLED, b"")
        except BaseException as error:  # noqa: BLE001 - around the user's code, which may raise anything
            self._end_copy()
            if not isinstance(error, WorkloadError) or error.__cause__ is not None:
                show_traceback(error, self._files)  # the way through the user's code
            failure = Failure(
                self._said(error),
                isinstance(error, OtherWorkloadError),
            )
            # A failed step may have spoilt all that the workload holds: it is built again, and goes on from
            # what the last good lease left on disk.
            self._close()
            self._failures += request.call == Call.TRAIN
            return Answer(request.number, Outcome.FAILED, encode(failure))
        finally:
            _flush()
            if self._session is None:
                gc.collect()  # models hold themselves, and the next one needs the room
        self._end_copy()
        return Answer(request.number, Outcome.DONE, body)

    def _carry_out(self, request: Request) -> object:
        if request.call == Call.BUILD:
            return self._build(decode(BuildCall, request.body)).info()
        if self._session is None:
            raise WorkloadError("the workload has not been built")

        def pause() -> None:
            self._pause(request.number)

        match request.call:
            case Call.INITIAL:
                return self._session.initial(decode(InitialCall, request.body))
            case Call.TRAIN:
                done = self._session.train(decode(TrainCall, request.body), pause)
                self._failures = 0
                return done
            case Call.LOOK:
                return self._session.look(decode(LookCall, request.body))
            case _:
                return self._session.evaluate(decode(EvaluateCall, request.body), pause)

    def _build(self, call: BuildCall) -> "Session":
        self._files = source_files(call.module)
        # Takes seconds, so that a module that is missing is named first.
        from p2pd.workload.defaults import Defaults  # noqa: PLC0415
        from p2pd.workload.session import Session  # noqa: PLC0415

        self._untouched = self._untouched or Defaults()
        self._untouched.restore()
        self._close()
        self._session = Session(call, anew=self._failures >= FAILURES_MOST, give_up=self._give_up)
        return self._session

    def _give_up(self, message: str) -> None:
        """From the thread that watches other workers, while this one waits for who has gone."""
        answer = Answer(self._number, Outcome.ENDING, encode(Failure(message)))
        write_frame(self._answers, encode(answer))
        os._exit(1)

    def _said(self, error: BaseException) -> str:
        """Why a call failed; of several workers also which one."""
        if isinstance(error, FellowError):
            return printable(str(error))
        alone = self._session is None or self._session.workers == 1
        return ("" if alone else "main worker failed: ") + failure_line(error, self._files)

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _pause(self, number: int) -> None:
        """Raises Cancelled if that has been asked for."""
        self._end_copy()
        self._stay_ours()
        self._page.step()
        rested_s = monotonic() + self._share.rest_s(monotonic())
        while select.select([self._requests], [], [], max(0.0, rested_s - monotonic()))[0]:
            request = self._next()
            if request is None:
                os._exit(1)  # the daemon has ended
            if (request.call, request.number) == (Call.CANCEL, number):
                raise Cancelled(request.body.decode())
        self._share.work(monotonic())

    def _end_copy(self) -> None:
        """A process that the user's code has forked must not go on as if it were the worker."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _stay_ours(self) -> None:
        """Nothing is written to a file that the user's code has opened under the number of a pipe."""
        if [identity(one) for one in (self._requests, self._answers)] != self._identities:
            os._exit(DESCRIPTORS_LOST)

    def _next(self) -> Request | None:
        data = read_frame(self._requests, LIMIT_BYTES)
        return None if data is None else decode(Request, data, limit_bytes=LIMIT_BYTES)


def _flush() -> None:
    """The user's code may have closed these, or put anything in their place."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(prog="p2pd.workload.serve")
    parser.add_argument("--requests", type=int, required=True, help="descriptor to read from")
    parser.add_argument("--answers", type=int, required=True, help="descriptor to write to")
    parser.add_argument("--page", type=int, required=True, help="descriptor of shared memory")
    parser.add_argument("--parent", type=int, required=True, help="process id of the daemon")
    parser.add_argument("--memory-bytes", type=int, default=0, help="limit; 0 for none")
    parser.add_argument("--share", type=float, default=1.0, help="of the time for steps")
    parser.add_argument("--path", action="append", default=[], help="directory of workloads")
    parser.add_argument("--data", action="append", default=[], help="directory of shard files")
    options = parser.parse_args(arguments)
    pipes = options.requests, options.answers
    keep(options.parent, pipes)
    for descriptor in (*pipes, options.page):
        os.set_inheritable(descriptor, False)  # what the user's code starts has no part in this
    if options.memory_bytes:
        # Not the address space: torch and CUDA reserve far more of it than they ever use.
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_bytes, options.memory_bytes))
    sys.path[:0] = options.path
    with data_in(tuple(map(Path, options.data))):
        Server(options.requests, options.answers, options.page, options.share).run()


if __name__ == "__main__":
    main()
