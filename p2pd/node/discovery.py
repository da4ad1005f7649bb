"""Finds peers through seeds and neighbours, and keeps links to a mesh of them. Seconds.

Seeds only introduce: once records are known, the mesh lives on without them. Every node asks on
each new link, and now and then a neighbour by lot, for the signed records that it knows.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random

import trio

from p2pd.core.backoff import backoff_s
from p2pd.core.encoding import decode, encode
from p2pd.core.hello import PeerRecord
from p2pd.core.ids import NetworkId, PeerId, short
from p2pd.core.talk import GetPeers, Peers, dump_talk
from p2pd.errors import RemoteError, UnreachableError
from p2pd.node.clock import ClockWatch
from p2pd.node.conduct import Offended, ignore
from p2pd.node.peer_table import (
    KIND,
    PEERS_MAX,
    Freshness,
    PeerTable,
    PeerView,
    freshness,
    is_loopback,
    record_scope,
)
from p2pd.node.seeds import dial_seed
from p2pd.node.target import Target
from p2pd.ports import Ledger, Link, Signer, Table, Transport
from p2pd.wire.envelope import dump, load, seal

log = logging.getLogger("p2pd.discovery")

RECORDS_MAX = 64
"""Peer records asked for, served and taken at a time."""
ANSWER_BYTES = RECORDS_MAX * (2 * 1024 + 8) + 16
ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Seed:
    address: str
    peer: PeerId | None = None
    """None takes whoever answers there, if of this network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    network: NetworkId
    roles: tuple[str, ...]
    seeds: tuple[Seed, ...] = ()
    mesh: int = 32
    """Peers that this node wants links to: all while there are fewer, else some by lot, for good."""
    ask_s: float = 10.0
    """A neighbour is asked for records so often, on average."""
    renew_s: float = 600.0
    """Age at which this node signs a new record of itself."""
    dial_s: float = 6.0
    dials: int = 8
    """Dials at a time."""
    backoff_base_s: float = 0.5
    backoff_most_s: float = 30.0
    backoff_stale_s: float = 300.0
    """Cap for peers whose records are too old to be passed on."""
    lonely_most_s: float = 6.0
    """Cap for seeds while there is no link at all: with dial_s, a node joins 15 s after its seed."""
    steady_s: float = 30.0
    """A link that lived shorter counts as a failed dial."""


class Discovery:
    """Its owner passes on what the transport says of links, and the requests for records."""

    def __init__(
        self,
        transport: Transport,
        ledger: Ledger,
        signer: Signer,
        dice: Random,
        now_ms: Callable[[], int],
        settings: DiscoverySettings,
    ) -> None:
        self.twin: str | None = None
        """Where another node lives that has this node's key, if one was found."""
        self.offended: Offended = ignore
        """Told of a peer whose records are wrong."""
        self.clock = ClockWatch()
        self._transport = transport
        self._ledger = ledger
        self._signer = signer
        self._dice = dice
        self._now_ms = now_ms
        self._settings = settings
        self._table = PeerTable(transport.peer, settings.network)
        self._targets: dict[PeerId, Target] = {}
        self._own: tuple[PeerRecord, bytes] | None = None
        self._to_ask: dict[PeerId, None] = {}
        self._asking: dict[PeerId, None] = {}
        self._dialling = 0
        self._changed = trio.Event()

    async def run(self) -> None:
        """Keeps records and links until cancelled; the transport must be running."""
        await self._restore()
        for link in self._transport.links():
            self.connected(link)
        async with trio.open_nursery() as nursery:
            for seed in self._settings.seeds:
                if self._transport.address != seed.address and self._transport.peer != seed.peer:
                    nursery.start_soon(self._keep_seed, seed)
            nursery.start_soon(self._keep_mesh, nursery)
            nursery.start_soon(self._keep_asking, nursery)

    def connected(self, link: Link) -> None:
        target = self._target(link.peer)
        target.linked_s = trio.current_time()
        target.outgoing = link.dialled
        self._to_ask[link.peer] = None
        self._wake()

    def disconnected(self, link: Link) -> None:
        if self._is_linked(link.peer):
            return  # a newer link has taken its place
        target = self._target(link.peer)
        steady = trio.current_time() - target.linked_s >= self._settings.steady_s
        target.failures = 0 if steady else target.failures + 1
        target.linked_s, target.outgoing = inf, False
        self._to_ask.pop(link.peer, None)
        if self._table.get(link.peer) is None and not target.dialling:
            del self._targets[link.peer]  # or callers with ever new keys would fill the memory
        else:
            self._rest(link.peer, target)
        self._wake()

    def serve_peers(self, peer: PeerId, request: GetPeers) -> bytes:
        """The encoded Peers that answer a request: this node's record, and some that it knows."""
        nearby = self._is_nearby(peer)
        own = self._renewed()
        envelopes = self._table.sample(
            self._dice, min(request.most, RECORDS_MAX) - 1, self._now_ms(), nearby=nearby
        )
        if own is not None and (nearby or not is_loopback(own[0].address)):
            envelopes = (own[1], *envelopes)
        return encode(Peers(self._now_ms(), envelopes))

    async def reach(self, peer: PeerId) -> Link:
        """The link to a peer, dialled if need be.

        Raises:
            UnreachableError: no address of it is known, or nobody answers there.
            RemoteError: somebody else answers, or refuses.
        """
        await trio.lowlevel.checkpoint()
        for link in self._transport.links():
            if link.peer == peer:
                return link
        record, target = self._table.get(peer), self._targets.get(peer)
        if target is not None and trio.current_time() < target.shunned_until_s:
            raise UnreachableError(f"{short(peer)} is shunned for what it did")
        if record is None:
            raise UnreachableError(f"no address of {short(peer)} is known")
        return await self._transport.connect(record.address, peer)

    def shun(self, peer: PeerId, until_s: float) -> None:
        """It is not dialled before then, and gives its place in the mesh to another."""
        self._target(peer).shun(until_s)
        self._wake()

    def known(self) -> tuple[PeerView, ...]:
        """Ascending by peer."""
        linked = {link.peer for link in self._transport.links()}
        views = []
        for peer in self._table.peers():
            record = self._table.get(peer)
            if record is not None:
                views.append(PeerView(peer, record, peer in linked, self._target(peer).failures))
        return tuple(views)

    # Records

    async def _restore(self) -> None:
        for _, envelope in self._ledger.scan(Table.PEERS, b"", limit=PEERS_MAX):
            await trio.lowlevel.checkpoint()
            try:
                signed = load(envelope, self._settings.network)
                self._table.restore(signed, envelope, self._now_ms())
            except RemoteError as error:
                log.warning("a stored peer record is not used: %s", error)

    def _renewed(self) -> tuple[PeerRecord, bytes] | None:
        """This node's own record, signed anew when its address has changed or its age says so."""
        address, now_ms = self._transport.address, self._now_ms()
        if not address:
            return None
        if self._own is not None:
            record = self._own[0]
            age_ms = now_ms - record.issued_at_ms
            if record.address == address and 0 <= age_ms < self._settings.renew_s * 1000:
                return self._own
        record = PeerRecord(address, self._settings.roles, now_ms)
        signed = seal(self._signer, KIND, record_scope(self._settings.network), record)
        self._own = record, dump(signed)
        return self._own

    async def _keep_asking(self, nursery: trio.Nursery) -> None:
        next_s = trio.current_time()
        while True:
            with trio.move_on_at(next_s):
                while not self._to_ask:
                    await self._changed.wait()
            if not self._to_ask:
                next_s = trio.current_time() + self._settings.ask_s * self._dice.uniform(0.5, 1.5)
                links = self._transport.links()
                if not links:
                    continue
                self._to_ask[self._dice.choice(links).peer] = None
            peer = next(iter(self._to_ask))
            del self._to_ask[peer]
            if peer not in self._asking:
                self._asking[peer] = None
                nursery.start_soon(self._ask, peer)

    async def _ask(self, peer: PeerId) -> None:
        asked_ms = self._now_ms()
        try:
            with trio.fail_after(ANSWER_S):
                data = await self._transport.request(
                    peer, dump_talk(GetPeers(RECORDS_MAX)), limit_bytes=ANSWER_BYTES
                )
        except (UnreachableError, RemoteError, trio.TooSlowError):
            return  # others are asked as well, and it may be again
        finally:
            del self._asking[peer]
        try:
            answer = decode(Peers, data, limit_bytes=ANSWER_BYTES)
            self.clock.note(peer, answer.now_ms, (asked_ms + self._now_ms()) // 2)
            await self._take(peer, answer.envelopes)
        except RemoteError as error:
            why = f"its peer records are wrong: {error}"
            self.offended(peer, why)
            self._transport.disconnect(peer, why)

    async def _take(self, peer: PeerId, envelopes: tuple[bytes, ...]) -> None:
        if len(envelopes) > RECORDS_MAX:
            raise RemoteError(f"{len(envelopes)} records, asked for were {RECORDS_MAX}")
        nearby = self._is_nearby(peer)
        for envelope in envelopes:
            if not self._table.holds(envelope):
                await trio.lowlevel.checkpoint()  # a signature takes a while to verify
                signed = load(envelope, self._settings.network)
                self._table.take(signed, envelope, self._now_ms(), nearby=nearby)
                if signed.signer == self._transport.peer:
                    self._find_twin(signed.content)
        linked = frozenset(link.peer for link in self._transport.links())
        self._table.make_room(linked, self._now_ms())
        for known in [p for p in self._targets if p not in linked and self._table.get(p) is None]:
            if not self._targets[known].dialling:
                del self._targets[known]
        if writes := self._table.unsaved():
            self._wake()
            await self._ledger.commit(writes)

    def _find_twin(self, record: PeerRecord) -> None:
        """A newer record of this node's own key, for another place, was not signed here."""
        own = self._renewed()
        newer = own is None or record.issued_at_ms > own[0].issued_at_ms
        if newer and record.address not in (self.twin, self._transport.address):
            self.twin = record.address
            log.error("this identity is live at %s as well: stop one of the two", self.twin)

    def _is_nearby(self, peer: PeerId) -> bool:
        return any(
            link.peer == peer and is_loopback(link.remote) for link in self._transport.links()
        )

    # Links

    async def _keep_mesh(self, nursery: trio.Nursery) -> None:
        while True:
            next_s = self._dial_wanted(nursery)
            with trio.move_on_at(next_s):
                await self._changed.wait()

    def _dial_wanted(self, nursery: trio.Nursery) -> float:
        """Starts what dials may start now. When the next may, if nothing changes before."""
        now_s, next_s = trio.current_time(), inf
        for peer in self._wanted():
            target = self._target(peer)
            if target.linked_s < inf or target.dialling:
                continue
            if (ready_s := max(target.ready_s, target.shunned_until_s)) > now_s:
                next_s = min(next_s, ready_s)
            elif self._dialling < self._settings.dials:
                self._dialling += 1
                target.dialling = True
                nursery.start_soon(self._dial, peer, target)
        return next_s

    def _wanted(self) -> list[PeerId]:
        """The mesh: those that were dialled, then those with the lowest lots, dead ones last.

        Who dialled in does not count, or strangers could take all places.
        """

        def order(peer: PeerId) -> tuple[bool, bool, float]:
            return self._target(peer).order()

        return sorted(self._table.peers(), key=order)[: self._settings.mesh]

    async def _dial(self, peer: PeerId, target: Target) -> None:
        try:
            with trio.fail_after(self._settings.dial_s):
                await self.reach(peer)
        except (UnreachableError, RemoteError, trio.TooSlowError):
            target.failures += 1
            self._rest(peer, target)
        else:
            if not self._is_linked(peer):  # it ended at once
                self._rest(peer, target)
        finally:
            target.dialling = False
            self._dialling -= 1
            self._wake()

    async def _keep_seed(self, seed: Seed) -> None:
        """Tries a seed for ever; says once whenever its state changes."""
        state, failures = "", 0
        while True:
            start_s = trio.current_time()
            link, found, detail = await dial_seed(
                self._transport, seed.address, seed.peer, deadline_s=self._settings.dial_s
            )
            if found != state:
                state = found
                level = logging.WARNING if link is None else logging.INFO
                again = "" if link else f"; again within {self._most_s():g} s"
                log.log(level, "seed %s %s: %s%s", seed.address, state, detail, again)
            while link is not None and self._is_linked(link.peer):
                await self._changed.wait()
            lived = link is not None and trio.current_time() - start_s >= self._settings.steady_s
            failures = 0 if lived else failures + 1
            await self._rest_from_seed(failures)

    def _most_s(self) -> float:
        """Most that a seed is left alone after a failure."""
        alone = not self._transport.links()
        return self._settings.lonely_most_s if alone else self._settings.backoff_most_s

    async def _rest_from_seed(self, failures: int) -> None:
        """Waits out the back-off, but not once the last link is gone."""
        settings = self._settings
        alone, most_s = not self._transport.links(), self._most_s()
        wait_s = backoff_s(failures, self._dice, base_s=settings.backoff_base_s, most_s=most_s)
        with trio.move_on_after(wait_s):
            while alone or self._transport.links():
                await self._changed.wait()
        if not alone and not self._transport.links():
            await trio.sleep(self._dice.uniform(0.0, settings.backoff_base_s))

    def _rest(self, peer: PeerId, target: Target) -> None:
        settings, record = self._settings, self._table.get(peer)
        stale = (
            record is not None and freshness(record.issued_at_ms, self._now_ms()) is Freshness.STALE
        )
        target.ready_s = trio.current_time() + backoff_s(
            target.failures,
            self._dice,
            base_s=settings.backoff_base_s,
            most_s=settings.backoff_stale_s if stale else settings.backoff_most_s,
        )

    def _is_linked(self, peer: PeerId) -> bool:
        return any(link.peer == peer for link in self._transport.links())

    def _target(self, peer: PeerId) -> Target:
        target = self._targets.get(peer)
        if target is None:
            target = self._targets[peer] = Target(self._dice.random())
        return target

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
