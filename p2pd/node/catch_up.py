"""Learns certified decisions from peers that are ahead, and looks at those that decided otherwise. Seconds."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.talk import Decided, GetFarthest, GetRecords, Records, dump_talk
from p2pd.errors import RemoteError, UnreachableError
from p2pd.node.fork_watch import Watch
from p2pd.ports import Transport
from p2pd.wire.records import MAX_RECORD_BYTES, load_record

RECORDS_BYTES = MAX_RECORD_BYTES
REQUEST_S = 20.0
PATIENCE_S = 2.0
"""A peer that takes longer does not keep the next one from being asked."""
OWN_S = 0.2
"""A voter hears of a decision while its own is on the way: so long it is not asked for."""
LEAP_HEIGHTS = 64
"""Who is further behind takes the newest decision, and those at which the validators changed, not all between."""
VAIN_MOST = 1024
"""Peers whose vain promises are remembered."""


class Chain(Protocol):
    @property
    def setting(self) -> Setting: ...

    @property
    def decision(self) -> Decision: ...

    @property
    def votes(self) -> bool:
        """It decides itself, where it can."""
        ...

    moved: trio.Event
    """Set when the next decision is adopted."""

    async def adopt(self, record: Record) -> None: ...

    async def leap(self, record: Record) -> None: ...

    def offended(self, peer: PeerId, why: str) -> None: ...


class CatchUp:
    def __init__(self, chain: Chain, transport: Transport, watch: Watch) -> None:
        self._chain = chain
        self._transport = transport
        self._watch = watch
        self._ahead: dict[PeerId, int] = {}
        self._apart: dict[PeerId, int] = {}
        """Peers that say they decided a height otherwise than this node."""
        self._asked: set[PeerId] = set()
        """They have not answered yet."""
        self._vain: Counter[PeerId] = Counter()
        """How often a peer said that it was ahead and had nothing that holds."""
        self._brought: tuple[PeerId, Decided] | None = None
        """Handed over unasked, and not looked at yet."""
        self._news = trio.Event()

    def heard(self, peer: PeerId, height: int, decision: DecisionId) -> None:
        """A peer says that it has adopted a height."""
        if height > self._chain.decision.height:
            self._ahead[peer] = height
            self._news.set()
        elif self._watch.differs(height, decision):
            self._apart[peer] = height
            self._news.set()

    def brought(self, peer: PeerId, decided: Decided) -> None:
        """A peer hands over what it has just adopted. Nothing of it is looked at but the one that is due next."""
        due = decided.height == self._chain.decision.height + 1
        if due and self._brought is None:
            self._brought = peer, decided
            self._news.set()
        elif not due:
            self.heard(peer, decided.height, decided.decision)
        # Others bring the same: if the first one does not hold, what they say with their next tip will be asked for.

    async def run(self) -> None:
        """Asks one peer after the other, until cancelled."""
        self._asked.clear()
        self._news.set()
        async with trio.open_nursery() as nursery:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                await self._take_brought()
                await self._await_own()
                while (peer := self._next()) is not None:
                    self._asked.add(peer)
                    done = trio.Event()
                    nursery.start_soon(self._ask, peer, done)
                    with trio.move_on_after(PATIENCE_S):
                        await done.wait()

    async def _await_own(self) -> None:
        due = self._chain.decision.height + 1
        if self._chain.votes and due in self._ahead.values():
            with trio.move_on_after(OWN_S):
                await self._chain.moved.wait()

    async def _take_brought(self) -> None:
        if self._brought is None:
            return
        peer, decided = self._brought
        try:
            if decided.height == self._chain.decision.height + 1:
                await self._take(peer, decided.record, self._chain.adopt)
        except UnreachableError:
            pass  # another will know
        except RemoteError as error:
            self._part(peer, error)
        finally:
            self._brought = None

    def _next(self) -> PeerId | None:
        apart = next((peer for peer in self._apart if peer not in self._asked), None)
        if apart is not None:
            return apart
        mine = self._chain.decision.height
        self._ahead = {peer: height for peer, height in self._ahead.items() if height > mine}
        return max(
            (peer for peer in self._ahead if peer not in self._asked),
            key=lambda one: (-self._vain[one], self._ahead[one], one),
            default=None,
        )

    async def _ask(self, peer: PeerId, done: trio.Event) -> None:
        apart, grew = self._apart.pop(peer, None), False
        try:
            if apart is not None:
                await self._watch.compare(peer, apart)
            grew = await self._learn_from(peer)
        except UnreachableError:
            pass  # another will know
        except RemoteError as error:
            self._part(peer, error)
        self._asked.discard(peer)
        if not grew:
            self._ahead.pop(peer, None)
            self._note_vain(peer)
        self._news.set()
        done.set()

    def _part(self, peer: PeerId, error: RemoteError) -> None:
        why = f"its decisions do not hold: {error}"
        self._chain.offended(peer, why)
        self._transport.disconnect(peer, why)

    def _note_vain(self, peer: PeerId) -> None:
        """Whoever promises in vain is asked after the others."""
        self._vain[peer] += 1
        if len(self._vain) > VAIN_MOST:
            del self._vain[next(iter(self._vain))]

    async def _learn_from(self, peer: PeerId) -> bool:
        """True if the chain has grown by what peer had to say.

        Raises:
            RemoteError: it does not hold.
            UnreachableError: it cannot tell what this node must know of it.
        """
        setting = self._chain.setting
        before = self._chain.decision.height
        far = self._ahead.get(peer, 0) - before > LEAP_HEIGHTS
        if far:
            await self._watch.look_back(peer, before)
        ask = GetFarthest if far else GetRecords
        take = self._chain.leap if far else self._chain.adopt
        request = dump_talk(ask(setting.revision.id, before))
        data = None
        try:
            with trio.move_on_after(REQUEST_S):
                data = await self._transport.request(peer, request, limit_bytes=RECORDS_BYTES)
        except (UnreachableError, RemoteError):
            return False
        if data is None:
            return False
        for encoded in decode(Records, data, limit_bytes=RECORDS_BYTES).records:
            if not await self._take(peer, encoded, take):
                return False
        return self._chain.decision.height > before

    async def _take(
        self, peer: PeerId, encoded: bytes, take: Callable[[Record], Awaitable[None]]
    ) -> bool:
        """False if the record goes on from another decision than this node's: there may be a fork.

        Raises:
            RemoteError: it does not hold.
        """
        record = load_record(encoded, self._chain.setting.genesis.network)
        header, last = record.decision.header, self._chain.decision
        if header.height == last.height + 1 and header.previous != last.id:
            await self._watch.compare(peer, last.height)
            return False
        await take(record)
        return True
