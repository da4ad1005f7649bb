"""Fetches artifacts from several providers at once, and serves them. Seconds, bytes.

Nothing is believed: a manifest is checked against the artifact id, a chunk against the manifest.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

import trio

from p2pd.core.artifact import CHUNK_BYTES, Manifest, chunk_count
from p2pd.core.backoff import backoff_s
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId, PeerId, short
from p2pd.core.talk import GetChunk, GetManifest, dump_talk
from p2pd.errors import P2pError, RemoteError, StoreError, UnreachableError
from p2pd.node.conduct import Offended, ignore
from p2pd.node.wanted import Wanted
from p2pd.ports import BlobStore, Transport

OWNER = "transfer"
"""Pins an artifact while its chunks come; who wants to keep it pins it before asking for it."""
MANIFEST = -1
"""Stands for the manifest among the numbers of chunks."""
HASH_BYTES = 34
"""Of one chunk in an encoded manifest."""
FAULTS_MAX = 4096
"""Faults that are remembered; the oldest are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings:
    lanes: int = 3
    """Requests under way to one provider, so that the link is never idle between two chunks."""
    flights: int = 24
    """Requests under way altogether: bounds the memory that downloads take, in chunks of 1 MiB."""
    hedge_s: float = 0.25
    """The manifest is small: one more provider is asked for it each time that so long went by."""
    patience_first_s: float = 10.0
    patience_least_s: float = 3.0
    patience_most_s: float = 30.0
    """A chunk is asked of somebody else after four times what chunks took lately, within these."""
    backoff_base_s: float = 0.5
    backoff_most_s: float = 15.0
    serve_per_peer: int = 16
    """Requests of one peer that are worked on at a time; more are refused."""


@dataclass(frozen=True, slots=True)
class DownloadView:
    artifact: ArtifactId
    size_bytes: int | None
    """None until the manifest is here."""
    missing_chunks: int
    providers: int


@dataclass(slots=True, eq=False)
class _Provider:
    peer: PeerId
    busy: int = 0
    failures: int = 0
    """In a row."""
    ready_s: float = 0.0
    bad: bool = False
    """Sent wrong bytes: never asked again for this artifact."""
    answered: bool = False
    """Has sent something right."""


@dataclass(slots=True, eq=False)
class _Download:
    """What all share that wait for one artifact.

    One of them does the work; if it leaves, the next one goes on.
    """

    artifact: ArtifactId
    patience_s: float
    waiters: int = 0
    turn: trio.Lock = field(default_factory=trio.Lock)
    providers: dict[PeerId, _Provider] = field(default_factory=dict)
    manifest: Manifest | None = None
    changed: trio.Event = field(default_factory=trio.Event)


@dataclass(slots=True, eq=False)
class _Job:
    """The manifest or chunks that are being collected, and how that ends."""

    download: _Download
    wanted: Wanted
    todo: list[int]
    rounds: int | None
    flying: int = 0
    error: P2pError | None = None
    last: str = "there are no providers"
    hedge: bool = False
    """Ask more and more providers for the one item; the first right answer ends it."""

    @property
    def over(self) -> bool:
        done = self.download.manifest if self.hedge else not (self.todo or self.flying)
        return self.error is not None or bool(done)


class Transfer:
    def __init__(
        self,
        transport: Transport,
        blobs: BlobStore,
        dice: Random,
        *,
        allowed: Callable[[PeerId, ArtifactId], bool],
        reach: Callable[[PeerId], Awaitable[object]] | None = None,
        settings: TransferSettings | None = None,
    ) -> None:
        """Who may have what is for allowed to say; reach opens a link, or raises as connect does."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self.offended: Offended = ignore
        """Told of a peer that sent wrong bytes."""
        self.faults: dict[PeerId, int] = {}
        """How often each provider sent wrong bytes."""
        self._transport = transport
        self._blobs = blobs
        self._dice = dice
        self._allowed = allowed
        self._reach = reach
        self._settings = TransferSettings() if settings is None else settings
        self._bad: dict[tuple[PeerId, ArtifactId], None] = {}
        self._downloads: dict[ArtifactId, _Download] = {}
        self._flights = trio.CapacityLimiter(self._settings.flights)
        self._serving: Counter[PeerId] = Counter()

    async def fetch(
        self, wanted: Wanted, providers: Sequence[PeerId], *, rounds: int | None = None
    ) -> Manifest:
        """The artifact is complete in the blob store when this returns.

        It goes on until cancelled, or until every provider has failed rounds times in a row. Who
        asks for the same artifact meanwhile shares the work, adds its providers, and waits as long
        as the one who does it.

        Raises:
            UnreachableError: every provider has failed rounds times.
            RemoteError: the artifact is not what is wanted.
            StoreError: there is no room for it.
        """
        await trio.lowlevel.checkpoint()
        artifact = wanted.artifact
        download = self._downloads.get(artifact)
        if download is None:
            download = _Download(artifact, self._settings.patience_first_s)
            self._downloads[artifact] = download
        download.waiters += 1
        self._blobs.pin(artifact, OWNER)
        self.offer(artifact, providers)
        try:
            async with download.turn:
                return await self._lead(download, wanted, rounds)
        finally:
            download.waiters -= 1
            if not download.waiters:
                del self._downloads[artifact]
                self._blobs.unpin(artifact, OWNER)

    def offer(self, artifact: ArtifactId, providers: Sequence[PeerId]) -> None:
        """Adds providers to a download, if it is still under way."""
        download = self._downloads.get(artifact)
        if download is None:
            return
        for peer in providers:
            if peer != self._transport.peer and peer not in download.providers:
                download.providers[peer] = _Provider(peer, bad=(peer, artifact) in self._bad)
        download.changed.set()

    def linked(self, peer: PeerId) -> None:
        """Whoever is linked from now on may be asked for all that is still wanted."""
        for artifact in self._downloads:
            self.offer(artifact, (peer,))

    def downloads(self) -> tuple[DownloadView, ...]:
        return tuple(self._view(self._downloads[artifact]) for artifact in sorted(self._downloads))

    async def serve_manifest(self, peer: PeerId, request: GetManifest) -> bytes:
        """Raises RemoteError: it is not here, not for this peer, or this peer asks too much."""
        await trio.lowlevel.checkpoint()
        self._check_access(peer, request.artifact)
        manifest = self._blobs.manifest(request.artifact)
        if manifest is None:
            raise RemoteError(f"artifact {short(request.artifact)} is not served here")
        data = encode(manifest)
        self.sent_bytes += len(data)
        return data

    async def serve_chunk(self, peer: PeerId, request: GetChunk) -> bytes:
        """Serves the chunks of incomplete artifacts too. Raises RemoteError: as serve_manifest."""
        self._check_access(peer, request.artifact)
        self._serving[peer] += 1
        try:
            data = await self._blobs.read(request.artifact, request.index)
        except StoreError as error:
            raise RemoteError(f"artifact {short(request.artifact)} is damaged here") from error
        finally:
            self._serving[peer] -= 1
            if not self._serving[peer]:
                del self._serving[peer]
        if data is None:
            raise RemoteError(
                f"chunk {request.index} of artifact {short(request.artifact)} is not served here"
            )
        self.sent_bytes += len(data)
        return data

    def _check_access(self, peer: PeerId, artifact: ArtifactId) -> None:
        if self._serving[peer] >= self._settings.serve_per_peer:
            raise RemoteError("too many requests at a time: wait for answers")
        if not self._allowed(peer, artifact):
            # The same words as for what is not here: who may not have it need not know.
            raise RemoteError(f"artifact {short(artifact)} is not served here")

    async def _lead(self, download: _Download, wanted: Wanted, rounds: int | None) -> Manifest:
        artifact = download.artifact
        manifest = self._blobs.manifest(artifact) or download.manifest
        if manifest is None:
            await self._collect(_Job(download, wanted, [MANIFEST], rounds, hedge=True))
            manifest = download.manifest
        assert manifest is not None  # it has been collected
        wanted.check(manifest)
        if not self._blobs.has(artifact):
            await self._blobs.begin(manifest)
        while missing := list(self._blobs.missing(artifact)):
            # In random order, so that several who fetch at a time can serve each other.
            self._dice.shuffle(missing)
            await self._collect(_Job(download, wanted, missing, rounds))
        return manifest

    async def _collect(self, job: _Job) -> None:
        """Gets all that is to do, or raises what ended it."""
        async with trio.open_nursery() as nursery:
            while not job.over:
                job.download.changed = trio.Event()
                while job.todo and (provider := self._choose(job)) is not None:
                    provider.busy += 1
                    job.flying += 1
                    nursery.start_soon(self._attempt, job, provider, job.todo.pop())
                if not job.flying and _exhausted(job):
                    job.error = UnreachableError(
                        f"artifact {short(job.download.artifact)} cannot be had: {job.last}"
                    )
                    break
                wait_s = self._settings.hedge_s if job.hedge and not job.todo else inf
                with trio.move_on_at(min(_next_ready_s(job), trio.current_time() + wait_s)) as wait:
                    await job.download.changed.wait()
                if wait.cancelled_caught and not job.todo:
                    job.todo.append(MANIFEST)
            nursery.cancel_scope.cancel()
        if job.error is not None:
            raise job.error

    def _choose(self, job: _Job) -> _Provider | None:
        """The provider to ask next: idle before busy, reliable before others, heard before unheard."""
        now_s = trio.current_time()
        ready = [
            provider
            for provider in job.download.providers.values()
            if not provider.bad
            and provider.ready_s <= now_s
            and provider.busy < (1 if provider.failures or job.hedge else self._settings.lanes)
        ]
        if not ready:
            return None
        self._dice.shuffle(ready)
        return min(
            ready, key=lambda p: (p.busy, p.failures, self.faults.get(p.peer, 0), not p.answered)
        )

    async def _attempt(self, job: _Job, provider: _Provider, item: int) -> None:
        download = job.download
        try:
            async with self._flights:
                start_s = trio.current_time()
                with trio.fail_after(download.patience_s):
                    data = await self._ask(job.wanted, provider.peer, item)
                self.received_bytes += len(data)
                if item != MANIFEST:
                    self._adapt(download, trio.current_time() - start_s)
                await self._keep(job, provider, item, data)
        except trio.TooSlowError:
            download.patience_s = min(2 * download.patience_s, self._settings.patience_most_s)
            self._fail(job, provider, item, f"{short(provider.peer)} is too slow")
        except (UnreachableError, RemoteError) as error:
            self._fail(job, provider, item, str(error))
        except StoreError as error:
            job.error = error
        finally:
            provider.busy -= 1
            job.flying -= 1
            download.changed.set()

    async def _ask(self, wanted: Wanted, peer: PeerId, item: int) -> bytes:
        if self._reach is not None:
            await self._reach(peer)
        if item == MANIFEST:
            request = dump_talk(GetManifest(wanted.artifact))
            limit_bytes = 256 + HASH_BYTES * chunk_count(wanted.max_bytes)
        else:
            request = dump_talk(GetChunk(wanted.artifact, item))
            limit_bytes = CHUNK_BYTES
        return await self._transport.request(peer, request, limit_bytes=limit_bytes)

    async def _keep(self, job: _Job, provider: _Provider, item: int, data: bytes) -> None:
        """Verifies what came; whoever sent wrong bytes is not asked again."""
        try:
            if item == MANIFEST:
                job.download.manifest = _checked(job.download.artifact, data)
            else:
                await self._blobs.write(job.download.artifact, item, data)
        except RemoteError as error:
            provider.bad = True
            self._blame(provider.peer, job.download.artifact)
            self._fail(job, provider, item, f"{short(provider.peer)} sent wrong bytes: {error}")
        else:
            provider.failures, provider.answered = 0, True

    def _blame(self, peer: PeerId, artifact: ArtifactId) -> None:
        self.offended(peer, f"it sent wrong bytes of {short(artifact)}")
        self._bad[peer, artifact] = None
        self.faults[peer] = self.faults.pop(peer, 0) + 1
        if len(self.faults) > FAULTS_MAX:
            del self.faults[next(iter(self.faults))]
        if len(self._bad) > FAULTS_MAX:
            del self._bad[next(iter(self._bad))]

    def _fail(self, job: _Job, provider: _Provider, item: int, why: str) -> None:
        provider.failures += 1
        provider.ready_s = trio.current_time() + backoff_s(
            provider.failures,
            self._dice,
            base_s=self._settings.backoff_base_s,
            most_s=self._settings.backoff_most_s,
        )
        job.todo.append(item)
        job.last = why

    def _adapt(self, download: _Download, took_s: float) -> None:
        """One slow provider among fast ones is replaced; where all are slow, patience grows."""
        settings = self._settings
        wish_s = min(max(4 * took_s, settings.patience_least_s), settings.patience_most_s)
        download.patience_s = 0.7 * download.patience_s + 0.3 * wish_s

    def _view(self, download: _Download) -> DownloadView:
        manifest = self._blobs.manifest(download.artifact)
        return DownloadView(
            download.artifact,
            None if manifest is None else manifest.size_bytes,
            0 if manifest is None else len(self._blobs.missing(download.artifact)),
            sum(not provider.bad for provider in download.providers.values()),
        )


def _checked(artifact: ArtifactId, data: bytes) -> Manifest:
    manifest = decode(Manifest, data, limit_bytes=len(data))
    if manifest.id != artifact:
        raise RemoteError("the manifest is of another artifact")
    return manifest


def _exhausted(job: _Job) -> bool:
    if job.rounds is None:
        return False
    providers = job.download.providers.values()
    return all(provider.bad or provider.failures >= job.rounds for provider in providers)


def _next_ready_s(job: _Job) -> float:
    """When a provider that is waited for may be asked again."""
    if not job.todo:
        return inf
    now_s = trio.current_time()
    waits = [p.ready_s for p in job.download.providers.values() if not p.bad]
    return min((ready_s for ready_s in waits if ready_s > now_s), default=inf)
