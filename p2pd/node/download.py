"""One artifact on its way here: whom to ask for which chunk, and what to do when that does not come. Seconds, bytes.

A provider that stalls or is slow is replaced: its chunks are asked of others after a few times what
chunks take. Once all chunks are asked for, idle providers are asked for the late ones too.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from random import Random
from typing import Protocol

import trio

from p2pd.core.artifact import Manifest, held_chunks
from p2pd.core.backoff import backoff_s
from p2pd.core.ids import ArtifactId, PeerId, short
from p2pd.errors import P2pError, RemoteError, StoreError, UnreachableError
from p2pd.node.pieces import Pieces
from p2pd.node.wanted import Wanted

MANIFEST = -1
"""Stands for the manifest among the numbers of chunks."""
FEW_CHUNKS = 8
"""So few are asked of anybody, without asking first who holds which."""
LATE_TIMES = 3
"""A chunk that takes so many times what chunks take is late."""
LATE_LEAST_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings:
    lanes: int = 3
    """Requests under way to one provider, so that the link is never idle between two chunks."""
    flights: int = 24
    """Requests under way altogether: bounds the memory that downloads take, in chunks of 1 MiB."""
    hedge_s: float = 0.25
    """The manifest is small: one more provider is asked for it each time that so long went by."""
    hedge_whole_s: float = 1.0
    """The same where the only chunk comes in its place."""
    look_s: float = 2.0
    """A provider that does not hold all is asked again what it holds after so long."""
    patience_first_s: float = 10.0
    patience_least_s: float = 3.0
    patience_most_s: float = 30.0
    """A chunk is asked of somebody else after four times what chunks took lately, within these."""
    backoff_base_s: float = 0.5
    backoff_most_s: float = 15.0
    serve_per_peer: int = 16
    """Requests of one peer that are worked on at a time; more are refused."""


class Hope(IntEnum):
    """How soon a provider is likely to give an artifact, as far as is known before it is asked."""

    OWNER = 0
    """It made it."""
    NAMED = 1
    """Whoever wants it expects it there."""
    LINKED = 2
    """It is there to be asked, that is all."""
    FAR = 3
    """There is no link to it yet, and to dial may take long."""


@dataclass(slots=True, eq=False)
class Provider:
    peer: PeerId
    hope: Hope = Hope.NAMED
    busy: int = 0
    failures: int = 0
    """In a row."""
    ready_s: float = 0.0
    look_s: float = 0.0
    """When it is to be asked what it holds; inf once it holds all."""
    bad: bool = False
    """Sent wrong bytes: never asked again for this artifact."""
    answered: bool = False
    """Has sent something right."""


@dataclass(slots=True, eq=False)
class Download:
    """What all share that wait for one artifact.

    One of them does the work; if it leaves, the next one goes on.
    """

    artifact: ArtifactId
    patience_s: float
    chunk_s: float | None = None
    """What a chunk took lately."""
    doubled_s: float = -inf
    """When patience was doubled last."""
    waiters: int = 0
    turn: trio.Lock = field(default_factory=trio.Lock)
    providers: dict[PeerId, Provider] = field(default_factory=dict)
    manifest: Manifest | None = None
    changed: trio.Event = field(default_factory=trio.Event)


class Errands(Protocol):
    """What a download has done for it."""

    async def ask(self, wanted: Wanted, peer: PeerId, item: int) -> bytes:
        """Raises UnreachableError, RemoteError: it does not come from there."""
        ...

    async def look(self, wanted: Wanted, peer: PeerId, count: int) -> bytes:
        """A bit for each chunk that peer holds. Raises as ask does."""
        ...

    async def keep(self, download: Download, item: int, data: bytes) -> None:
        """Raises RemoteError: wrong bytes. StoreError: they cannot be kept."""
        ...

    def blame(self, peer: PeerId, artifact: ArtifactId) -> None:
        """It sent wrong bytes."""
        ...

    def suspect(self, peer: PeerId) -> bool:
        """It sent wrong bytes before."""
        ...


@dataclass(slots=True, eq=False)
class _Flight:
    """One request for a chunk."""

    provider: Provider
    start_s: float
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class Collection:
    """The manifest or chunks that are being collected, and how that ends."""

    def __init__(
        self,
        errands: Errands,
        settings: TransferSettings,
        dice: Random,
        flights: trio.CapacityLimiter,
        download: Download,
    ) -> None:
        self._errands = errands
        self._settings = settings
        self._dice = dice
        self._limit = flights
        self._download = download
        self._flights: dict[int, list[_Flight]] = {}
        self._error: P2pError | None = None
        self._last = "there are no providers"
        self._pieces = Pieces((), dice)
        self._wanted: Wanted
        self._rounds: int | None = None
        self._count = 0
        """Of the chunks of the artifact, if it is worth to ask who holds which."""
        self._hedges = False
        """Ask more and more providers for the manifest; the first right answer ends it."""

    async def run(self, wanted: Wanted, missing: list[int], rounds: int | None) -> None:
        """Gets all that is missing, or raises what ended it; rounds: failures in a row of every provider."""
        self._wanted, self._rounds = wanted, rounds
        self._pieces = Pieces(missing, self._dice)
        manifest = self._download.manifest
        if manifest is None:
            self._hedges = True
        elif len(manifest.chunks) > FEW_CHUNKS:
            self._count = len(manifest.chunks)
        async with trio.open_nursery() as nursery:
            while not self._over:
                self._download.changed = trio.Event()
                self._start(nursery)
                if not self._flights and self._exhausted:
                    artifact = short(self._download.artifact)
                    self._error = UnreachableError(
                        f"artifact {artifact} cannot be had: {self._last}"
                    )
                    break
                with trio.move_on_at(self._next_s()):
                    await self._download.changed.wait()
            nursery.cancel_scope.cancel()
        if self._error is not None:
            raise self._error

    @property
    def _over(self) -> bool:
        return self._error is not None or not (self._pieces or self._flights)

    @property
    def _exhausted(self) -> bool:
        if self._rounds is None:
            return False
        providers = self._download.providers.values()
        return all(provider.bad or provider.failures >= self._rounds for provider in providers)

    # Whom to ask for what

    def _start(self, nursery: trio.Nursery) -> None:
        """Begins all that can be begun now."""
        now_s = trio.current_time()
        if self._count:
            for provider in self._download.providers.values():
                if not provider.bad and provider.look_s <= now_s:
                    provider.look_s = now_s + self._settings.look_s
                    nursery.start_soon(self._look, provider)
        while self._pieces and (choice := self._choose(now_s)) is not None:
            self._launch(nursery, *choice)
        if not self._pieces:
            for item in self._late(now_s):
                ready = [one for one in self._ready(now_s) if self._may_help(one, item)]
                if ready:
                    self._launch(nursery, ready[0], item)

    def _launch(self, nursery: trio.Nursery, provider: Provider, item: int) -> None:
        flight = _Flight(provider, trio.current_time())
        provider.busy += 1
        self._flights.setdefault(item, []).append(flight)
        nursery.start_soon(self._attempt, flight, item)

    def _choose(self, now_s: float) -> tuple[Provider, int] | None:
        for provider in self._ready(now_s):
            item = self._pieces.take(provider.peer)
            if item is not None:
                return provider, item
        return None

    def _ready(self, now_s: float) -> list[Provider]:
        """Who may be asked now, the best first.

        While nothing is known of who holds what: those that most likely do. Asking one that does not
        costs a round trip, and most do not just after an artifact was made. Else: idle before busy,
        reliable before others, heard before unheard.
        """
        known = [provider for provider in self._download.providers.values() if not provider.bad]
        # Whoever sent wrong bytes before, of anything, is asked only where there is nobody else.
        honest = [one for one in known if not self._errands.suspect(one.peer)]
        if any(not one.failures for one in honest):
            known = honest
        ready = [one for one in known if one.ready_s <= now_s and one.busy < self._lanes(one)]
        self._dice.shuffle(ready)
        if self._count:
            return sorted(ready, key=lambda one: (one.busy, one.failures, not one.answered))
        return sorted(ready, key=lambda one: (one.failures, one.hope, one.busy, not one.answered))

    def _lanes(self, provider: Provider) -> int:
        unknown = self._count and not self._pieces.known(provider.peer)
        return 1 if provider.failures or self._hedges or unknown else self._settings.lanes

    def _late(self, now_s: float) -> list[int]:
        """What ought to be here, the longest wait first. Only the manifest is asked of more than two."""
        most = inf if self._hedges else 1
        found = [
            (flights[-1].start_s, item)
            for item, flights in self._flights.items()
            if len(flights) <= most and flights[-1].start_s + self._late_s() <= now_s
        ]
        return [item for _, item in sorted(found)]

    def _late_s(self) -> float:
        took_s = self._download.chunk_s
        if self._hedges:
            settings = self._settings
            return settings.hedge_whole_s if self._wanted.is_whole else settings.hedge_s
        return inf if took_s is None else max(LATE_TIMES * took_s, LATE_LEAST_S)

    def _may_help(self, provider: Provider, item: int) -> bool:
        asked = any(flight.provider is provider for flight in self._flights[item])
        return not asked and not provider.failures and self._pieces.holds(provider.peer, item)

    def _next_s(self) -> float:
        """When something can be begun that cannot be now."""
        now_s = trio.current_time()
        times = [inf]
        for provider in self._download.providers.values():
            if provider.bad:
                continue
            if self._pieces:
                times.append(provider.ready_s)
            if self._count:
                times.append(provider.look_s)
        if not self._pieces:
            times += [flights[-1].start_s + self._late_s() for flights in self._flights.values()]
        return min(time_s for time_s in times if time_s > now_s)

    # Asking

    async def _look(self, provider: Provider) -> None:
        """Asks a provider what it holds; one that holds nothing of use counts as failed."""
        try:
            with trio.move_on_after(self._settings.patience_least_s):
                held = await self._errands.look(self._wanted, provider.peer, self._count)
                self._pieces.learn(provider.peer, held)
                if held == held_chunks(self._count, ()):
                    provider.look_s = inf
                if self._pieces and not self._pieces.gives(provider.peer):
                    self._fail(provider, f"{short(provider.peer)} does not hold it yet")
        except RemoteError as error:
            self._pieces.learn(provider.peer, b"")
            self._fail(provider, str(error))
        except UnreachableError:
            return  # asking it for a chunk tells as much
        finally:
            self._download.changed.set()

    async def _attempt(self, flight: _Flight, item: int) -> None:
        download, provider = self._download, flight.provider
        arrived = False
        try:
            with flight.scope:
                async with self._limit:
                    arrived = await self._fetch(flight, item)
        except trio.TooSlowError:
            self._slow(flight)
            self._fail(provider, f"{short(provider.peer)} is too slow")
        except (UnreachableError, RemoteError) as error:
            self._fail(provider, str(error))
        except StoreError as error:
            self._error = error
        finally:
            provider.busy -= 1
            self._land(flight, item, arrived=arrived or flight.scope.cancel_called)
            download.changed.set()

    async def _fetch(self, flight: _Flight, item: int) -> bool:
        """True if the item is here now."""
        download, provider = self._download, flight.provider
        start_s = flight.start_s = trio.current_time()
        with trio.fail_after(download.patience_s):
            data = await self._errands.ask(self._wanted, provider.peer, item)
        if item != MANIFEST:
            self._adapt(trio.current_time() - start_s)
        try:
            await self._errands.keep(download, item, data)
        except RemoteError as error:
            provider.bad = True
            self._errands.blame(provider.peer, download.artifact)
            self._fail(provider, f"{short(provider.peer)} sent wrong bytes: {error}")
            return False
        provider.failures, provider.answered = 0, True
        return True

    def _land(self, flight: _Flight, item: int, *, arrived: bool) -> None:
        others = [one for one in self._flights.get(item, ()) if one is not flight]
        if arrived:
            for other in others:
                other.scope.cancel()
            others = []
        elif not others and item in self._flights:
            self._pieces.put_back(item)
        if others:
            self._flights[item] = others
        else:
            self._flights.pop(item, None)

    def _fail(self, provider: Provider, why: str) -> None:
        provider.failures += 1
        provider.ready_s = trio.current_time() + backoff_s(
            provider.failures,
            self._dice,
            base_s=self._settings.backoff_base_s,
            most_s=self._settings.backoff_most_s,
        )
        self._last = why

    def _slow(self, flight: _Flight) -> None:
        """Patience grows with the first of several requests that were begun with the same patience."""
        download = self._download
        if flight.start_s >= download.doubled_s:
            download.doubled_s = trio.current_time()
            download.patience_s = min(2 * download.patience_s, self._settings.patience_most_s)

    def _adapt(self, took_s: float) -> None:
        """One slow provider among fast ones is replaced; where all are slow, patience grows."""
        download, settings = self._download, self._settings
        download.chunk_s = (
            took_s if download.chunk_s is None else 0.7 * download.chunk_s + 0.3 * took_s
        )
        wish_s = min(max(4 * took_s, settings.patience_least_s), settings.patience_most_s)
        download.patience_s = 0.7 * download.patience_s + 0.3 * wish_s
