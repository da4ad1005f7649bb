"""A script that drives its own trainer: the model lives in the script, a node of its owner's does all else.

    trainer = p2pd.attach("local/nodes/trainer1")
    with trainer.continuous("digits") as session:
        while True:
            outcome = session.train_next_window()

The node runs with `worker.attached = true`. Its leases come over its control socket, as they come to a worker
process; what became of an update comes back the same way. Units: seconds.
"""

import os
import select
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType

from p2pd.core.encoding import decode, encode
from p2pd.core.work import MILLION
from p2pd.errors import RemoteError, UnreachableError, WorkloadError
from p2pd.io.control import converse
from p2pd.tensors.frames import read_frame, write_frame
from p2pd.workload.contract import Cancelled, Workload
from p2pd.workload.places import data_in
from p2pd.workload.protocol import (
    LIMIT_BYTES,
    Answer,
    BuildCall,
    Call,
    Certified,
    Failure,
    Outcome,
    Request,
    TrainCall,
)
from p2pd.workload.session import Session
from p2pd.workload.share import Share
from p2pd.workload.source import failure_line, source_files

ATTACH_S = 10.0
CLOSE_S = 5.0
READ_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """What became of one lease."""

    height: int
    """Of its plan."""
    accepted: bool
    """The update is in the new head."""
    why: str
    """Why it is not; empty where it is."""
    weight: float
    """Its share in the new head, 0 to 1."""
    head: str
    """The canonical head since, in hexadecimal."""
    metric: float | None
    """Of that head: the median of what the validators measured; None where they have not said it yet."""
    samples: int
    steps: int
    loss: float
    """Mean training loss of the lease."""


def attach(data_dir: str | os.PathLike[str]) -> "AttachedTrainer":
    """The trainer whose node runs in a data directory, or will."""
    return AttachedTrainer(Path(data_dir))


class AttachedTrainer:
    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def continuous(self, experiment: str = "") -> "ContinuousSession":
        """Builds the workload of the node's revision here, and takes its leases until the session is closed.

        experiment: that the node must work on, `study/experiment` or its second part; empty for whichever.

        Raises:
            UnreachableError: no node runs there.
            P2pError: another script drives it, it is none for scripts, or it works on something else.
            WorkloadError: the workload is another one here than the revision's, or does not build.
        """
        return ContinuousSession(self._data_dir, experiment)

    def train_window_once(
        self, experiment: str = "", *, timeout_s: float | None = None
    ) -> WindowOutcome:
        """One window, and nothing kept for another one. Raises as continuous and train_next_window."""
        with self.continuous(experiment) as session:
            return session.train_next_window(timeout_s=timeout_s)


class ContinuousSession:
    """Stays warm between windows; as long as it is open, the trainer shows itself to the network."""

    def __init__(self, data_dir: Path, experiment: str) -> None:
        request = {"call": "drive", "process": os.getpid(), "experiment": experiment}
        self._data_dir = data_dir
        self._connection, greeting = converse(data_dir, request, ATTACH_S)
        self._lookahead: int = greeting["lookahead"]
        self._share = Share(greeting["share"])
        self._module: str = greeting["module"]
        self._built: BuildCall | None = None
        self._session: Session | None = None
        self._waiting: Request | None = None
        """A lease that came before it was asked for."""
        self._outcomes: list[WindowOutcome] = []
        self._open = True
        sys.path[:0] = [path for path in greeting["paths"] if path not in sys.path]
        self._data = tuple(map(Path, greeting["data"]))
        try:
            write_frame(self._connection.fileno(), b"")
            while self._built is None:
                self._serve(self._next(None))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "ContinuousSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def workload(self) -> Workload:
        """What build(config) gave; it holds what was trained last, not the newest head."""
        return self._ready().workload

    def close(self) -> None:
        """The trainer gives its lease up, and rests. Returns once the node has let go, so that another may come."""
        if not self._open:
            return
        self._open = False
        with suppress(OSError), self._connection as connection:
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(CLOSE_S)
            while connection.recv(READ_BYTES):
                pass  # what was on its way

    def train_next_window(self, *, timeout_s: float | None = None) -> WindowOutcome:
        """Trains the next lease, and returns what became of it once that is decided.

        With lookahead it goes on with the lease after it meanwhile, and returns when that is trained.

        Raises:
            UnreachableError: the node has ended.
            TimeoutError: nothing was decided within timeout_s; the session goes on.
            WorkloadError, or what the workload's own code raises: the lease is given back; the next call builds
                the workload anew, and goes on from what the last good lease left.
        """
        end_s = None if timeout_s is None else monotonic() + timeout_s
        trained = 0
        while not self._outcomes:
            request = self._waiting if self._may_train(trained) else None
            self._waiting = None if request is not None else self._waiting
            request = request or self._next(end_s)
            if request.call == Call.TRAIN and not self._may_train(trained):
                self._waiting = request
            elif self._serve(request):
                trained += 1
        return self._outcomes.pop(0)

    def _may_train(self, trained: int) -> bool:
        return trained <= self._lookahead

    def _serve(self, request: Request) -> bool:
        """Whether it was a lease, and is trained."""
        with data_in(self._data):
            return self._carry_out(request)

    def _carry_out(self, request: Request) -> bool:
        match request.call:
            case Call.BUILD:
                self._built = decode(BuildCall, request.body)
                self._build(request)
            case Call.TRAIN:
                return self._train(request)
            case Call.CERTIFIED:
                self._outcomes.append(_outcome(decode(Certified, request.body)))
            case Call.REFUSED:
                raise WorkloadError(decode(Failure, request.body).message)
            case _:
                pass  # called off after it was answered
        return False

    def _train(self, request: Request) -> bool:
        """False: it was called off."""
        session = self._ready()
        try:
            done = session.train(
                decode(TrainCall, request.body), lambda: self._pause(request.number)
            )
        except Cancelled:
            self._send(Answer(request.number, Outcome.CANCELLED, b""))
            return False
        except UnreachableError:
            raise
        except Exception as error:
            session.close()
            self._session = None  # a failed step may have spoilt all that the workload holds
            line = failure_line(error, source_files(self._module))
            self._send(Answer(request.number, Outcome.FAILED, encode(Failure(line))))
            raise
        finally:
            self._share.leave()
        self._send(Answer(request.number, Outcome.DONE, encode(done)))
        session.settle()
        return True

    def _ready(self) -> Session:
        if self._session is None:
            if self._built is None:
                raise UnreachableError("the session is closed: open another one")
            self._session = Session(self._built)
        return self._session

    def _build(self, request: Request) -> None:
        try:
            info = self._ready().info()
        except Exception as error:
            line = failure_line(error, source_files(self._module))
            self._send(Answer(request.number, Outcome.FAILED, encode(Failure(line))))
            raise
        self._send(Answer(request.number, Outcome.DONE, encode(info)))

    def _pause(self, number: int) -> None:
        """Between two steps. Raises Cancelled if the lease is called off."""
        rested_s = monotonic() + self._share.rest_s(monotonic())
        while self._hears(rested_s):
            request = self._receive()
            if (request.call, request.number) == (Call.CANCEL, number):
                raise Cancelled
            if request.call == Call.CERTIFIED:
                self._serve(request)
        self._share.work(monotonic())

    def _next(self, end_s: float | None) -> Request:
        if not self._hears(end_s):
            raise TimeoutError(
                "no window was decided in that time: p2pd status shows what the trainer waits for"
            )
        return self._receive()

    def _hears(self, end_s: float | None) -> bool:
        if not self._open:
            raise UnreachableError("the session is closed: open another one")
        left_s = None if end_s is None else max(0.0, end_s - monotonic())
        return bool(select.select([self._connection], [], [], left_s)[0])

    def _receive(self) -> Request:
        try:
            data = read_frame(self._connection.fileno(), LIMIT_BYTES)
        except (OSError, RemoteError):
            data = None
        if data is None:
            raise self._ended()
        return decode(Request, data, limit_bytes=LIMIT_BYTES)

    def _send(self, answer: Answer) -> None:
        try:
            write_frame(self._connection.fileno(), encode(answer))
        except OSError as error:
            raise self._ended() from error

    def _ended(self) -> UnreachableError:
        self.close()
        return UnreachableError(
            f"the node in {self._data_dir} has ended, or gave this script up: see its log, and attach again"
        )


def _outcome(certified: Certified) -> WindowOutcome:
    return WindowOutcome(
        height=certified.height,
        accepted=certified.accepted,
        why=certified.why,
        weight=certified.weight / MILLION,
        head=certified.head.hex(),
        metric=None if certified.metric is None else certified.metric / MILLION,
        samples=certified.samples,
        steps=certified.steps,
        loss=certified.loss / MILLION,
    )
