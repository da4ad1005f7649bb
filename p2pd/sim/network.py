"""A network inside one process: what happens on a link is drawn from the seed, link by link.

Other than on a real link, a control message may be lost, doubled or overtaken while its link lives:
what holds here holds there. Requests and dials are repeated under the surface until they arrive, as
QUIC does, or the link breaks. Seconds are virtual.
"""

from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256

import trio

from p2pd.core.hello import Hello
from p2pd.core.ids import PeerId, short
from p2pd.errors import LocalError, RemoteError, UnreachableError
from p2pd.ports import Link, LinkHandler
from p2pd.sim.clock import KEPT, Action, VirtualClock, pause, virtual_clock
from p2pd.sim.ends import MESSAGE_BYTES, RESEND_S, End, Reply
from p2pd.sim.links import Fate, LinkDice, LinkFaults, Partition
from p2pd.sim.traffic import Traffic

DIAL_S = 10.0
"""A dial that nobody answers gives up after this."""


class MemoryNetwork:
    def __init__(self, seed: int, faults: LinkFaults | None = None) -> None:
        self.faults = LinkFaults() if faults is None else faults
        self._seed = seed
        self._special: dict[tuple[str, str], LinkFaults] = {}
        self._dice: dict[tuple[str, str], LinkDice] = {}
        self._partitions: list[Partition] = []
        self._nodes: dict[str, MemoryTransport] = {}
        self._hosts: dict[str, int] = {}
        self._trace = sha256()
        self.traffic = Traffic()

    @cached_property
    def clock(self) -> VirtualClock:
        """Of the run that it is used in."""
        return virtual_clock()

    def join(
        self, name: str, peer: PeerId, hello: Hello, *, address: str | None = None
    ) -> "MemoryTransport":
        """A transport for one life of a node. A restarted node joins again, under the same name.

        The hello is sent with the node's address in it, which is the same in each of its lives.
        Another one may be given; an empty one for a node that takes no connections.
        """
        number = self._hosts.setdefault(name, len(self._hosts) + 1)
        host = f"10.0.{number >> 8}.{number & 255}"
        known = f"{host}:7000" if address is None else address
        transport = MemoryTransport(self, name, peer, replace(hello, address=known))
        transport.source = known or f"{host}:50000"
        self._nodes[name] = transport
        return transport

    def set_faults(self, faults: LinkFaults) -> None:
        """Of all links that have none of their own."""
        self.faults = faults

    def set_link(self, source: str, target: str, faults: LinkFaults | None) -> None:
        """Faults of one direction of one link; None goes back to the network's."""
        if faults is None:
            self._special.pop((source, target), None)
        else:
            self._special[source, target] = faults

    def cut(self, partition: Partition) -> None:
        self._partitions.append(partition)
        self._watch()

    def heal(self, partition: Partition) -> None:
        self._partitions.remove(partition)
        self._watch()

    def digest(self) -> str:
        """Of all that was delivered so far, by time: two runs were the same if it is the same."""
        return self._trace.hexdigest()

    def blocked(self, source: str, target: str) -> bool:
        return bool(self._partitions) and any(
            partition.blocks(source, target) for partition in self._partitions
        )

    def severed(self, one: str, other: str) -> bool:
        """No link can live: it takes both directions."""
        return self.blocked(one, other) or self.blocked(other, one)

    def listener(self, address: str) -> "MemoryTransport | None":
        for node in self._nodes.values():
            if address and node.address == address and node.running:
                return node
        return None

    def faults_of(self, source: str, target: str) -> LinkFaults:
        return self._special.get((source, target), self.faults)

    def throw(self, source: str, target: str) -> Fate:
        dice = self._dice.get((source, target))
        if dice is None:
            dice = self._dice[source, target] = LinkDice(self._seed, source, target)
        return dice.throw(self.faults_of(source, target))

    def note(self, what: str, source: str, target: str, message: bytes) -> None:
        self.traffic.add(source, target, len(message))
        head = f"{self.clock.true_s!r} {what} {source} {target} {len(message)}\n"
        self._trace.update(head.encode() + message)

    def _watch(self) -> None:
        for node in self._nodes.values():
            node.watch_links()


class MemoryTransport:
    """Port Transport, for one life of a simulated node. Its crash is the cancellation of run."""

    def __init__(self, network: MemoryNetwork, name: str, peer: PeerId, hello: Hello) -> None:
        self.network = network
        self.name = name
        self.hello = hello
        self.source = hello.address
        """host:port that others see it come from."""
        self.running = False
        self.handler: LinkHandler
        self._peer = peer
        self.ends: dict[PeerId, End] = {}
        self._nursery: trio.Nursery
        self._links: tuple[Link, ...] | None = ()
        """None: to be listed anew."""
        self._silent = False
        self._skew = KEPT.get()

    @property
    def peer(self) -> PeerId:
        return self._peer

    @property
    def address(self) -> str:
        return self.hello.address

    def links(self) -> tuple[Link, ...]:
        if self._links is None:
            self._links = tuple(self.ends[peer].link for peer in sorted(self.ends))
        return self._links

    async def connect(self, address: str, peer: PeerId | None) -> Link:
        await trio.lowlevel.checkpoint()
        pause_s = RESEND_S
        with trio.move_on_after(DIAL_S):
            while True:
                if peer is not None and peer in self.ends:
                    return self.ends[peer].link
                target = self.network.listener(address)
                if target is not None and (link := await self._dial(target, peer)) is not None:
                    return link
                await pause(pause_s)
                pause_s *= 2  # RFC 9002 6.2.1
        raise UnreachableError(f"{address} does not answer within {DIAL_S:g} s")

    def send(self, peer: PeerId, message: bytes, *, patient: bool = False) -> bool:
        _check_size(message)
        end = self.ends.get(peer)
        return end is not None and end.send(message)

    async def drain(self) -> None:
        """What was lost, and what another message overtook, is not waited for."""
        last_s = max((end.last_s for end in self.ends.values()), default=0.0)
        await pause(max(0.0, last_s - self.network.clock.true_s))

    async def request(self, peer: PeerId, message: bytes, *, limit_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        _check_size(message)
        end = self.ends.get(peer)
        if end is None:
            raise UnreachableError(f"no link to {short(peer)}")
        reply = Reply(limit_bytes, trio.Event())
        end.ask(message, reply)
        try:
            await reply.done.wait()
        finally:
            end.replies.pop(id(reply), None)
            reply.drop()
        if reply.error is not None:
            raise reply.error
        return reply.data

    def disconnect(self, peer: PeerId, why: str) -> None:
        end = self.ends.get(peer)
        if end is not None:
            end.part(why)

    async def run(
        self, handler: LinkHandler, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        self.handler, self._skew = handler, KEPT.get()
        try:
            async with trio.open_nursery() as self._nursery:
                self.running = True
                task_status.started()
                await trio.sleep_forever()
        finally:
            self.running = False
            for end in list(self.ends.values()):
                end.part("it stopped", silent=self._silent)

    def power_off(self) -> None:
        """To be followed by cancelling run: nobody is told, others notice by the silence."""
        self._silent = True

    def post(self, at_s: float, action: Action) -> None:
        """Lets action happen at this node, at that true time, if the node still lives."""
        if self.running:
            self.network.clock.post(at_s, partial(self._happen, action))

    def _happen(self, action: Action) -> None:
        if self.running:
            before = KEPT.set(self._skew)
            try:
                action()
            finally:
                KEPT.reset(before)

    def at_home(self, action: Action) -> None:
        """By the clock of this node, whoever causes it."""
        before = KEPT.set(self._skew)
        try:
            action()
        finally:
            KEPT.reset(before)

    def take(self, end: End, message: bytes, reply: Reply) -> None:
        """A request has come in."""
        if not reply.dropped:
            self.network.note("request", end.other.owner.name, self.name, message)
            end.tasks[id(reply)] = reply
            self._nursery.start_soon(self._answer, end, message, reply)

    def forget(self, end: End) -> None:
        if self.ends.get(end.link.peer) is end:
            del self.ends[end.link.peer]
            self._links = None

    def hold(self, end: End) -> None:
        self.ends[end.link.peer] = end
        self._links = None

    def watch_links(self) -> None:
        for end in self.ends.values():
            end.watch()

    async def _answer(self, end: End, message: bytes, reply: Reply) -> None:
        outcome: bytes | RemoteError
        with trio.CancelScope() as reply.work:
            try:
                outcome = await self.handler.answer(end.link.peer, message)
            except RemoteError as error:
                outcome = RemoteError(str(error))
            end.respond(reply, outcome)
        end.tasks.pop(id(reply), None)

    async def _dial(self, target: "MemoryTransport", peer: PeerId | None) -> Link | None:
        """None if nothing came back, so that the dial must be tried again."""
        there = self.network.throw(self.name, target.name)
        back = self.network.throw(target.name, self.name)
        await pause(there.delay_s + back.delay_s)
        if there.lost or back.lost or self.network.severed(self.name, target.name):
            return None
        if not (self.running and target.running):
            return None
        if there.failed:
            raise UnreachableError(f"{target.address} broke off the dial: try again")
        if target.peer == self.peer or peer not in (None, target.peer):
            wanted = "this node itself" if target.peer == self.peer else f"not {short(peer or b'')}"
            raise RemoteError(f"{target.address} is {short(target.peer)}, {wanted}")
        self._check_hello(target.hello, target.address)
        if target.peer in self.ends:
            return self.ends[target.peer].link
        former = target.ends.get(self.peer)
        if former is not None:
            if former.other.open and not self.network.severed(former.other.owner.name, target.name):
                raise UnreachableError(f"{target.address} ended the connection: linked already")
            former.part("the peer connected again")
        return self._join(target)

    def _check_hello(self, hello: Hello, address: str) -> None:
        if hello.version != self.hello.version:
            raise RemoteError(
                f"{address} speaks protocol version {hello.version}, this node {self.hello.version}"
            )
        if hello.network != self.hello.network:
            raise RemoteError(
                f"{address} is of network {short(hello.network)}, not {short(self.hello.network)}"
            )

    def _join(self, target: "MemoryTransport") -> Link:
        here = End(self, Link(target.peer, target.hello, target.address, dialled=True))
        there = End(target, Link(self.peer, self.hello, self.source, dialled=False))
        here.other, there.other = there, here
        for end in (there, here):
            end.owner.hold(end)
            end.owner.at_home(partial(end.owner.handler.connected, end.link))
        return here.link


def _check_size(message: bytes) -> None:
    if len(message) > MESSAGE_BYTES:
        raise LocalError(f"message of {len(message)} bytes exceeds {MESSAGE_BYTES}")
