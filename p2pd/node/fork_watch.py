"""Compares this node's decisions with those of its peers, and remembers what contradicts them. Seconds."""

import logging
from collections import OrderedDict
from typing import Protocol

import trio

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.forks import Fork, Split, fork_of, named, told
from p2pd.core.ids import DecisionId, PeerId
from p2pd.core.talk import GetRecords, Records, dump_talk
from p2pd.errors import RemoteError, UnreachableError
from p2pd.node.chronicle import Chronicle
from p2pd.ports import Transport
from p2pd.wire.records import MAX_RECORD_BYTES, load_record

log = logging.getLogger("p2pd.lane")

REQUEST_S = 20.0
RECENT = 256
"""Heights whose ids are at hand. Who is further behind asks for what it lacks, and notices itself."""


class Watch(Protocol):
    """What following peers needs of it."""

    def differs(self, height: int, decision: DecisionId) -> bool: ...

    async def compare(self, peer: PeerId, top: int) -> None: ...

    async def look_back(self, peer: PeerId, height: int) -> None: ...


class ForkWatch:
    def __init__(self, chronicle: Chronicle, setting: Setting, transport: Transport) -> None:
        self.fork: Fork | None = None
        self.until_found = trio.CancelScope()
        """Around what has to end then."""
        self._chronicle, self._setting, self._transport = chronicle, setting, transport
        self._recent: OrderedDict[int, DecisionId] = OrderedDict()

    def open(self) -> None:
        """Takes up what was found before the last stop."""
        fork = self._chronicle.fork()
        if fork is not None:
            self._stop(fork)

    def adopted(self, decision: Decision) -> None:
        self._recent[decision.height] = decision.id
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def trouble(self) -> str | None:
        """For people; None while there is no fork."""
        if self.fork is None:
            return None
        mine = self._chronicle.record(self.fork.height)
        liars = named(self._setting, mine.decision, self.fork) if mine else ()
        return told(self.fork, liars)

    def differs(self, height: int, decision: DecisionId) -> bool:
        """Whether a peer says that it adopted something else at a height that is adopted here."""
        return self._recent.get(height, decision) != decision

    async def look_back(self, peer: PeerId, height: int) -> None:
        """Before heights are leapt over: does peer's chain come from what was adopted here?

        Raises as compare. Who leapt over that height itself cannot tell.
        """
        if height == 0:
            return  # the genesis decision is everybody's
        mine, theirs = self._chronicle.record(height), await self._theirs(peer, height)
        if mine and theirs and theirs.decision.id != mine.decision.id:
            await self.compare(peer, height)

    async def compare(self, peer: PeerId, top: int) -> None:
        """Finds out whether a quorum stands behind what a peer decided otherwise, up to height top.

        Raises:
            RemoteError: there is none, or nothing is otherwise.
            UnreachableError: it does not answer, or leapt over what it would have to show.
        """
        split = Split(top)
        while (height := split.next()) is not None:
            mine = self._chronicle.next_record(height)
            if mine is None or mine.decision.height >= split.below:
                split.compared(height, same=False)  # leapt over here: look further down
                continue
            height = mine.decision.height
            theirs = await self._theirs(peer, height)
            if theirs is None:
                raise UnreachableError(f"it does not hold height {height}")
            same = theirs.decision.id == mine.decision.id
            split.compared(height, same=same)
            fork = None if same else fork_of(self._setting, mine, theirs)
            if fork is not None:
                await self._chronicle.keep_fork(fork)
                self._stop(fork)
                return
        raise RemoteError("it says that it decided otherwise, and no quorum stands behind that")

    def _stop(self, fork: Fork) -> None:
        self.fork = fork
        self.until_found.cancel()
        log.error("%s", self.trouble())

    async def _theirs(self, peer: PeerId, height: int) -> Record | None:
        """None if it does not hold that height."""
        request = dump_talk(GetRecords(self._setting.revision.id, height - 1))
        data = None
        try:
            with trio.move_on_after(REQUEST_S):
                data = await self._transport.request(peer, request, limit_bytes=MAX_RECORD_BYTES)
        except RemoteError as error:
            raise UnreachableError(str(error)) from error
        if data is None:
            raise UnreachableError("it did not say in time what it decided")
        records = decode(Records, data, limit_bytes=MAX_RECORD_BYTES).records
        record = load_record(records[0], self._setting.genesis.network) if records else None
        return record if record and record.decision.height == height else None
