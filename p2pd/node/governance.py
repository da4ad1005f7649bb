"""The governance log as one node holds it: durable, without a gap, brought to neighbours and asked of them. Seconds.

Records come from the control socket, from neighbours, or in decisions. Where the authority signed two of one number, a
node keeps the first that it hears of, until a decision takes one: what a chain has taken stands.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import trio

from p2pd.core.decision import Decision
from p2pd.core.encoding import decode, encode
from p2pd.core.genesis import Genesis
from p2pd.core.governance import (
    NUMBER_MOST,
    LogPlace,
    RecordId,
    SignedGovernance,
    beginning,
    check_endorsed,
)
from p2pd.core.health import Health
from p2pd.core.ids import PeerId, short
from p2pd.core.talk import GetGovernance, GovernanceTip, Records, dump_talk
from p2pd.errors import RemoteError, StoreError, UnreachableError
from p2pd.node.conduct import Offended
from p2pd.node.neighbours import Neighbours
from p2pd.node.patience import take
from p2pd.ports import Ledger, Link, Table, Transport, Write
from p2pd.wire.records import load_governance

log = logging.getLogger("p2pd.governance")

AGAIN_S = 5.0
"""Between two times that a few neighbours are told how far the log goes: messages may be lost."""
REQUEST_S = 20.0
ANSWER_RECORDS = 64
ANSWER_BYTES = 2**20
NUMBER_BYTES = 8


class NotNextError(RemoteError):
    """Sound, and not what comes next in the log as it is here."""


class GovernanceLog:
    def __init__(
        self, genesis: Genesis, ledger: Ledger, transport: Transport, health: Health
    ) -> None:
        self._genesis = genesis
        self._ledger = ledger
        self._transport = transport
        self._neighbours = Neighbours(transport)
        self._health = health
        self.held: Callable[[SignedGovernance], None] = lambda _: None
        """Told of each record that was stored."""
        self.offended: Offended = lambda *_: None
        self._records: list[SignedGovernance] = []
        """From number 1 on."""
        self._taken = beginning(genesis.network)
        """As far as the chain goes that went on last."""
        self._turn = trio.Lock()
        self._ahead: dict[PeerId, LogPlace] = {}
        """Peers that say they have other records, or more."""
        self._rivals: set[RecordId] = set()
        """Of numbers that are taken here: said once."""
        self._news = trio.Event()

    @property
    def place(self) -> LogPlace:
        last = self._records[-1:]
        return last[0].place if last else beginning(self._genesis.network)

    def after(self, number: int) -> Sequence[SignedGovernance]:
        return self._records[number:]

    def open(self) -> None:
        """Raises StoreError: what is stored is damaged."""
        after = b""
        while rows := self._ledger.scan(Table.GOVERNANCE, b"", after=after):
            for key, data in rows:
                self._take_up(key, data)
                after = key

    def _take_up(self, key: bytes, data: bytes) -> None:
        try:
            signed = load_governance(data, self._genesis.network)
            check_endorsed(self._genesis, signed)
            if key != _key(signed.record.number) or not self.place.takes(signed.record):
                raise RemoteError("it does not follow")  # noqa: TRY301 - as any other damage
        except RemoteError as error:
            number = int.from_bytes(key[:NUMBER_BYTES])
            raise StoreError(
                f"governance record {number} is damaged ({error}): restore the ledger"
            ) from error
        self._records.append(signed)

    async def add(self, signed: SignedGovernance) -> None:
        """Stores the next record, and passes it on; what is here already is no news.

        Raises:
            NotNextError: the log goes on otherwise here.
            RemoteError: it is not the authority's.
        """
        check_endorsed(self._genesis, signed)
        await take(self._turn)
        try:
            number = signed.record.number
            here = self._records[number - 1 : number]
            if here and here[0].record.id == signed.record.id:
                return
            if here:
                self._note_rival(signed)
                raise NotNextError(
                    f"governance record {number} is {short(here[0].record.id)} here, not "
                    f"{short(signed.record.id)}: the authority signed two; see `p2pd status`"
                )
            if number == self._taken.number and signed.record.id != self._taken.record:
                await self._store(1, [])
                raise NotNextError(f"a decision took another governance record {number}")
            if not self.place.takes(signed.record):
                raise NotNextError(
                    f"governance record {number} does not follow number {self.place.number}, "
                    "the last one here: make it anew"
                )
            await self._store(number, [signed])
        finally:
            self._turn.release()

    def _note_rival(self, signed: SignedGovernance) -> None:
        if signed.record.id in self._rivals:
            return
        self._rivals.add(signed.record.id)
        number = signed.record.number
        said = (
            f"the authority signed two governance records {number}, one of them "
            f"{short(signed.record.id)}: the one that a decision takes holds"
        )
        self._health.note("governance", said)
        log.error("%s", said)

    async def _store(self, number: int, records: Sequence[SignedGovernance]) -> None:
        """From this number on the log is these records. The caller holds the turn."""
        gone = [one.record.number for one in self._records[number - 1 :]]
        writes = [Write(Table.GOVERNANCE, _key(one), None) for one in gone]
        writes += [Write(Table.GOVERNANCE, _key(one.record.number), encode(one)) for one in records]
        await self._ledger.commit(writes)
        self._records[number - 1 :] = records
        for signed in records:
            log.info("governance record %d: %s", signed.record.number, short(signed.record.id))
            self.held(signed)
        self._tell(self._neighbours.tell_all)

    async def follow(self, decision: Decision, taken: Iterable[SignedGovernance]) -> None:
        """Makes the log the one that a chain has taken, as far as that goes. taken: by this decision."""
        await take(self._turn)
        try:
            for signed in taken:
                number = signed.record.number
                here = self._records[number - 1 : number]
                if not here or here[0].record.id != signed.record.id:
                    before = self._records[number - 2].place if number > 1 else None
                    if number == 1 or (before is not None and before.takes(signed.record)):
                        await self._store(number, [signed])
            self._taken = place = decision.state.governed.log
            here = self._records[place.number - 1 : place.number]
            if place.number and (not here or here[0].place != place):
                # The decisions between are not here, nor what they took: others have that.
                await self._store(1, [])
        finally:
            self._turn.release()

    # Neighbours

    def greet(self, link: Link) -> None:
        if self._records:
            self._tell(partial(self._transport.send, link.peer))

    def _tell(self, send: Callable[[bytes], object]) -> None:
        send(dump_talk(GovernanceTip(self.place.number, self.place.record)))

    def on_tip(self, peer: PeerId, tip: GovernanceTip) -> None:
        place = LogPlace(tip.number, tip.record)
        if place.number >= self.place.number and place != self.place:
            self._ahead[peer] = place
            self._news.set()

    def serve(self, request: GetGovernance) -> bytes:
        if not 0 <= request.after <= NUMBER_MOST:
            raise RemoteError(f"{request.after} is no number of a governance record")
        found: list[bytes] = []
        for signed in self._records[request.after :][:ANSWER_RECORDS]:
            found.append(encode(signed))
            if sum(map(len, found)) > ANSWER_BYTES // 2:
                break
        return encode(Records(tuple(found)))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with trio.move_on_after(AGAIN_S):
                await self._news.wait()
            self._news = trio.Event()
            while self._ahead:
                peer, _ = self._ahead.popitem()
                await self._ask(peer)
            if self._records:
                self._tell(self._neighbours.tell_few)

    async def _ask(self, peer: PeerId) -> None:
        """From the last record here on, so that another one in its place is seen."""
        request = dump_talk(GetGovernance(max(0, self.place.number - 1)))
        try:
            with trio.move_on_after(REQUEST_S):
                data = await self._transport.request(peer, request, limit_bytes=ANSWER_BYTES)
                for encoded in decode(Records, data, limit_bytes=ANSWER_BYTES).records:
                    await self.add(load_governance(encoded, self._genesis.network))
        except (UnreachableError, NotNextError):
            return  # another will know, or a decision says which one holds
        except RemoteError as error:
            self.offended(peer, f"its governance log does not hold: {error}")


def _key(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES)
