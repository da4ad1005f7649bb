"""The two sides of a link in memory, and the requests that are open on it. Seconds are virtual."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import trio

from p2pd.core.ids import short
from p2pd.errors import P2pError, RemoteError, UnreachableError

if TYPE_CHECKING:
    from p2pd.ports import Link
    from p2pd.sim.clock import Action
    from p2pd.sim.links import Fate
    from p2pd.sim.network import MemoryTransport

IDLE_S = 30.0
"""A link over which nothing gets through for so long is broken, and both sides know it."""
RESEND_S = 0.3
"""A lost piece of a request, response or dial comes so much later."""
MESSAGE_BYTES = 2**20
"""Largest control message and largest request."""
QUEUE_BYTES = 2 * 2**20
"""Of control messages under way in one direction of a link; more are dropped, the sender told."""


@dataclass(slots=True)
class Reply:
    """Of one request: filled in by the network, awaited by the asker."""

    limit_bytes: int
    done: trio.Event
    data: bytes = b""
    error: P2pError | None = None
    dropped: bool = False
    """The asker waits no longer."""
    work: trio.CancelScope | None = None
    """The answerer's task."""

    def finish(self, data: bytes) -> None:
        if len(data) > self.limit_bytes:
            self.error = RemoteError(f"response exceeds the limit of {self.limit_bytes} bytes")
        self.data = data
        self.done.set()

    def fail(self, error: P2pError) -> None:
        self.error = error
        self.done.set()

    def drop(self) -> None:
        self.dropped = True
        if self.work is not None:
            self.work.cancel()


class End:
    """One side of a link."""

    def __init__(self, owner: MemoryTransport, link: Link) -> None:
        self.owner = owner
        self.link = link
        self.open = True
        self.other: End
        self.replies: dict[int, Reply] = {}
        """To requests of this side that have no answer yet."""
        self.tasks: dict[int, Reply] = {}
        """Requests of the other side that this side works on."""
        self._network = owner.network
        self._under_way_bytes = 0
        self.last_s = 0.0
        """When all messages have arrived that are under way, those aside that another overtakes."""
        self._severed_since_s: float | None = None

    def send(self, message: bytes) -> bool:
        if self._under_way_bytes + len(message) > QUEUE_BYTES:
            return False
        fate = self._throw()
        if fate.lost or self._blocked() or not self.other.open:
            return True
        now_s = self._network.clock.true_s
        at_s = now_s + fate.delay_s
        if not fate.overtaken:
            at_s = self.last_s = max(at_s, self.last_s)
        self._under_way_bytes += len(message)
        self.other.owner.post(at_s, partial(self._arrive, message, first=True))
        if fate.again_s is not None:
            self.other.owner.post(now_s + fate.again_s, partial(self._arrive, message, first=False))
        return True

    def ask(self, message: bytes, reply: Reply) -> None:
        self.replies[id(reply)] = reply
        fate = self._throw()
        if fate.failed:
            why = UnreachableError(f"{short(self.link.peer)} broke off a request: try again")
            self.owner.post(self._network.clock.true_s + fate.delay_s, partial(reply.fail, why))
        else:
            self._carry(fate, 0, partial(self.other.owner.take, self.other, message, reply))

    def respond(self, reply: Reply, outcome: bytes | RemoteError) -> None:
        self.tasks.pop(id(reply), None)
        if isinstance(outcome, bytes):
            self._network.note("response", self.owner.name, self.other.owner.name, outcome)
            self._carry(self._throw(), len(outcome), partial(reply.finish, outcome))
        else:
            self._carry(self._throw(), 0, partial(reply.fail, outcome))

    def close(self, why: str) -> None:
        """This side only."""
        if not self.open:
            return
        self.open = False
        self.owner.forget(self)
        error = UnreachableError(f"link to {short(self.link.peer)} ended: {why}")
        for reply in self.replies.values():
            reply.fail(error)
        for reply in self.tasks.values():
            reply.drop()
        self.owner.at_home(partial(self.owner.handler.disconnected, self.link, why))

    def part(self, why: str, *, silent: bool = False) -> None:
        """Closes this side, and lets the other one know when it can."""
        self.close(why)
        after_s = IDLE_S if silent or self._blocked() else self._throw().delay_s
        at_s = max(self._network.clock.true_s + after_s, self.last_s)
        told = "nothing heard of it" if silent or self._blocked() else why
        self.other.owner.post(at_s, partial(self.other.close, told))

    def watch(self) -> None:
        """Breaks the link if it stays severed from now on."""
        if not self._network.severed(self.owner.name, self.other.owner.name):
            self._severed_since_s = None
        elif self._severed_since_s is None:
            since_s = self._severed_since_s = self._network.clock.true_s
            self.owner.post(since_s + IDLE_S, partial(self._idle, since_s))

    def _idle(self, since_s: float) -> None:
        if self._severed_since_s == since_s:
            self.close("nothing heard of it")

    def _arrive(self, message: bytes, *, first: bool) -> None:
        self._under_way_bytes -= len(message) if first else 0
        if self.other.open:
            receiver = self.other.owner
            self._network.note("control", self.owner.name, receiver.name, message)
            receiver.handler.received(self.owner.peer, message)

    def _carry(self, fate: Fate, size_bytes: int, action: Action) -> None:
        """Brings a piece of a request to the other side, however often it takes."""
        rate_bytes_s = self._network.faults_of(self.owner.name, self.other.owner.name).rate_bytes_s
        after_s = fate.delay_s + size_bytes / rate_bytes_s + (RESEND_S if fate.lost else 0.0)
        self._try(self._network.clock.true_s + after_s, action)

    def _try(self, at_s: float, action: Action) -> None:
        def arrive() -> None:
            if not self.other.open:
                return
            if self._blocked():
                self._try(self._network.clock.true_s + RESEND_S, action)
            else:
                action()

        self.other.owner.post(at_s, arrive)

    def _blocked(self) -> bool:
        return self._network.blocked(self.owner.name, self.other.owner.name)

    def _throw(self) -> Fate:
        return self._network.throw(self.owner.name, self.other.owner.name)
