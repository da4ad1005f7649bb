"""Fetches artifacts from several providers at once, and serves them. Seconds, bytes.

Nothing is believed: a manifest is checked against the artifact id, a chunk against the manifest.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

import trio

from p2pd.core.artifact import CHUNK_BYTES, Manifest, chunk_count, held_chunks
from p2pd.core.encoding import decode, encode
from p2pd.core.ids import ArtifactId, PeerId, short
from p2pd.core.talk import GetChunk, GetHeld, GetManifest, dump_talk
from p2pd.errors import RemoteError, StoreError
from p2pd.node.conduct import Offended, ignore
from p2pd.node.download import MANIFEST, Collection, Download, Hope, Provider, TransferSettings
from p2pd.node.wanted import Wanted
from p2pd.ports import BlobStore, Transport

OWNER = "transfer"
"""Pins an artifact while its chunks come; who wants to keep it pins it before asking for it."""
HASH_BYTES = 34
"""Of one chunk in an encoded manifest."""
FAULTS_MAX = 4096
"""Faults that are remembered; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class DownloadView:
    artifact: ArtifactId
    size_bytes: int | None
    """None until the manifest is here."""
    missing_chunks: int
    providers: int


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
        self._downloads: dict[ArtifactId, Download] = {}
        self._flights = trio.CapacityLimiter(self._settings.flights)
        self._serving: Counter[PeerId] = Counter()

    async def fetch(
        self,
        wanted: Wanted,
        providers: Sequence[PeerId],
        *,
        others: Sequence[PeerId] = (),
        rounds: int | None = None,
    ) -> Manifest:
        """The artifact is complete in the blob store when this returns.

        Others are asked where its owner and the providers do not give it.

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
            download = Download(artifact, self._settings.patience_first_s)
            self._downloads[artifact] = download
        download.waiters += 1
        self._blobs.pin(artifact, OWNER)
        linked = {link.peer for link in self._transport.links()}
        for peer in providers:
            hope = Hope.OWNER if peer == wanted.owner else Hope.NAMED
            self.offer(artifact, (peer,), hope if peer in linked else Hope.FAR)
        self.offer(artifact, others, Hope.LINKED)
        try:
            async with download.turn:
                return await self._lead(download, wanted, rounds)
        finally:
            download.waiters -= 1
            if not download.waiters:
                del self._downloads[artifact]
                self._blobs.unpin(artifact, OWNER)

    def offer(
        self, artifact: ArtifactId, providers: Sequence[PeerId], hope: Hope = Hope.NAMED
    ) -> None:
        """Adds providers to a download, if it is still under way."""
        download = self._downloads.get(artifact)
        if download is None:
            return
        for peer in providers:
            known = download.providers.get(peer)
            if known is not None:
                known.hope = min(known.hope, hope)
            elif peer != self._transport.peer:
                bad = (peer, artifact) in self._bad
                download.providers[peer] = Provider(peer, hope, bad=bad)
        download.changed.set()

    def linked(self, peer: PeerId) -> None:
        """Whoever is linked from now on may be asked for all that is still wanted."""
        for artifact in self._downloads:
            self.offer(artifact, (peer,), Hope.LINKED)

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

    async def serve_held(self, peer: PeerId, request: GetHeld) -> bytes:
        """Raises RemoteError: as serve_manifest."""
        await trio.lowlevel.checkpoint()
        self._check_access(peer, request.artifact)
        manifest = self._blobs.manifest(request.artifact)
        if manifest is None:
            raise RemoteError(f"artifact {short(request.artifact)} is not served here")
        missing = self._blobs.missing(request.artifact)
        return held_chunks(len(manifest.chunks), missing)

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

    async def _lead(self, download: Download, wanted: Wanted, rounds: int | None) -> Manifest:
        artifact = download.artifact
        download.manifest = self._blobs.manifest(artifact) or download.manifest
        if download.manifest is None:
            await self._collection(download).run(wanted, [MANIFEST], rounds)
        manifest = download.manifest
        assert manifest is not None  # it has been collected
        wanted.check(manifest)
        if not self._blobs.has(artifact):
            await self._blobs.begin(manifest)
        while missing := list(self._blobs.missing(artifact)):
            await self._collection(download).run(wanted, missing, rounds)
        return manifest

    def _collection(self, download: Download) -> Collection:
        return Collection(self, self._settings, self._dice, self._flights, download)

    # What a collection has done for it (Errands)

    async def ask(self, wanted: Wanted, peer: PeerId, item: int) -> bytes:
        if item != MANIFEST:
            return await self._ask_chunk(wanted, peer, item)
        if wanted.is_whole and await self._ask_whole(wanted, peer):
            return encode(self._blobs.manifest(wanted.artifact))
        request = dump_talk(GetManifest(wanted.artifact))
        limit_bytes = 256 + HASH_BYTES * chunk_count(wanted.max_bytes)
        data = await self._request(peer, request, limit_bytes)
        self.received_bytes += len(data)
        return data

    async def _ask_chunk(self, wanted: Wanted, peer: PeerId, index: int) -> bytes:
        request = dump_talk(GetChunk(wanted.artifact, index))
        data = await self._request(peer, request, CHUNK_BYTES)
        self.received_bytes += len(data)
        return data

    async def _ask_whole(self, wanted: Wanted, peer: PeerId) -> bool:
        """Saves a round trip. What does not fit says not yet who is wrong: the manifest does."""
        data = await self._ask_chunk(wanted, peer, 0)
        return await self._blobs.put_fetched(
            wanted.artifact, wanted.kind, wanted.schema or b"", data, wanted.owner
        )

    async def look(self, wanted: Wanted, peer: PeerId, count: int) -> bytes:
        return await self._request(peer, dump_talk(GetHeld(wanted.artifact)), -(-count // 8))

    async def _request(self, peer: PeerId, request: bytes, limit_bytes: int) -> bytes:
        if self._reach is not None:
            await self._reach(peer)
        return await self._transport.request(peer, request, limit_bytes=limit_bytes)

    async def keep(self, download: Download, item: int, data: bytes) -> None:
        if item == MANIFEST:
            download.manifest = _checked(download.artifact, data)
        else:
            await self._blobs.write(download.artifact, item, data)

    def suspect(self, peer: PeerId) -> bool:
        return peer in self.faults

    def blame(self, peer: PeerId, artifact: ArtifactId) -> None:
        self.offended(peer, f"it sent wrong bytes of {short(artifact)}")
        self._bad[peer, artifact] = None
        self.faults[peer] = self.faults.pop(peer, 0) + 1
        if len(self.faults) > FAULTS_MAX:
            del self.faults[next(iter(self.faults))]
        if len(self._bad) > FAULTS_MAX:
            del self._bad[next(iter(self._bad))]

    def _view(self, download: Download) -> DownloadView:
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
