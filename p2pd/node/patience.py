"""What a node does while there is no room: it says so once, waits, and goes on once there is. Seconds.

What cannot be written is not said either: a vote waits for its place in the ledger, and is sent after that.
"""

import logging
from collections.abc import Sequence

import trio

from p2pd.core.health import Health
from p2pd.errors import NoRoomError
from p2pd.ports import Ledger, Table, Write

log = logging.getLogger("p2pd.room")

AGAIN_S = 1.0
"""Between two attempts to write what found no room."""


class Room:
    """Tells a person, once, that something finds no room, and once that it does again."""

    def __init__(self, health: Health, source: str) -> None:
        self._health = health
        self._source = source
        self._lacking = False

    def say(self, error: NoRoomError | None) -> None:
        """None: something was written."""
        if error is not None:
            self._health.note(self._source, str(error))
            if not self._lacking:
                log.error("%s", error)
        elif self._lacking:
            self._health.clear(self._source)
            log.info("%s: there is room again", self._source)
        self._lacking = error is not None


async def take(lock: trio.Lock) -> None:
    """As its acquire, but at once where nobody holds it: not even the others that could run come first."""
    try:
        lock.acquire_nowait()
    except trio.WouldBlock:
        await lock.acquire()


class PatientLedger:
    """A ledger whose commits wait for room, in the order in which they were asked for."""

    def __init__(self, ledger: Ledger, health: Health) -> None:
        self._ledger = ledger
        self._room = Room(health, "ledger")
        self._turn = trio.Lock()

    async def commit(self, writes: Sequence[Write]) -> None:
        await take(self._turn)
        try:
            await self._commit(writes)
        finally:
            self._turn.release()

    async def _commit(self, writes: Sequence[Write]) -> None:
        while True:
            try:
                await self._ledger.commit(writes)
            except NoRoomError as error:
                self._room.say(error)
            else:
                self._room.say(None)
                return
            await trio.sleep(AGAIN_S)

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self._ledger.get(table, key)

    def scan(
        self, table: Table, prefix: bytes, *, after: bytes = b"", limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        return self._ledger.scan(table, prefix, after=after, limit=limit)

    def last(self, table: Table, prefix: bytes) -> tuple[bytes, bytes] | None:
        return self._ledger.last(table, prefix)
