"""Which of several sources of data is asked next, and what becomes of those that fail or lie. Seconds, bytes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from random import Random

import trio

from p2pd.core.backoff import backoff_s
from p2pd.core.ids import ArtifactId
from p2pd.core.shards import SET_BYTES_MOST, SET_FILE, SHARD_FORMAT, ShardFile, load_set
from p2pd.errors import RemoteError, UnreachableError
from p2pd.ports import BlobStore, DataSource

log = logging.getLogger("p2pd.data")

FAILED_BASE_S, FAILED_MOST_S = 1.0, 60.0
"""A source that failed is left alone for so long, longer each time in a row."""
LIED_BASE_S, LIED_MOST_S = 60.0, 3600.0


@dataclass(slots=True, eq=False)
class _Ranked:
    source: DataSource
    failures: int = 0
    """In a row."""
    lies: int = 0
    """Ever."""
    ready_s: float = -inf


class Sources:
    def __init__(self, sources: Sequence[DataSource], blobs: BlobStore, dice: Random) -> None:
        self.received_bytes = 0
        self._ranked = [_Ranked(source) for source in sources]
        self._blobs = blobs
        self._dice = dice

    async def bring(self, file: ShardFile) -> str:
        """A file that was begun in the store, from the best source that gives it. Empty if it is here, else why not.

        Raises:
            StoreError: there is no room for it.
        """
        why = ""
        for ranked in self._ready():
            try:
                await self._read(ranked.source, file)
            except (UnreachableError, RemoteError) as error:
                why = self._failed(ranked, error)
            else:
                ranked.failures = 0
                return ""
        return why or "no source can be asked now"

    async def find(self, wanted: ArtifactId) -> str:
        """The manifest of a set: stores it. Empty if it is here, else why not. Raises StoreError as bring."""
        why = ""
        for ranked in self._ready():
            try:
                data = await self._read_set(ranked.source, wanted)
            except (UnreachableError, RemoteError) as error:
                why = self._failed(ranked, error)
                continue
            ranked.failures = 0
            manifest = load_set(data, wanted).manifest
            await self._blobs.put(manifest.kind, SHARD_FORMAT, data)
            return ""
        return why or "no source can be asked now"

    def __len__(self) -> int:
        return len(self._ranked)

    def _ready(self) -> list[_Ranked]:
        """Who never lied and never failed comes first; the others in turn."""
        now_s = trio.current_time()
        ready = [one for one in self._ranked if one.ready_s <= now_s]
        return sorted(ready, key=lambda one: (one.lies, one.failures))

    async def _read(self, source: DataSource, file: ShardFile) -> None:
        artifact, count = file.manifest.id, len(file.manifest.chunks)
        while missing := self._blobs.missing(artifact):
            async with source.read(file.name, file.manifest, missing[0]) as reading:
                for index in range(missing[0], count):
                    data = await reading.next()
                    self.received_bytes += len(data)
                    await self._keep(file, index, data)

    async def _keep(self, file: ShardFile, index: int, data: bytes) -> None:
        if len(data) < file.manifest.chunk_bytes(index):
            raise UnreachableError(f"{file.name} ends early")
        try:
            await self._blobs.write(file.manifest.id, index, data)
        except RemoteError as error:
            raise RemoteError(f"{file.name} has other bytes than the data set names") from error

    async def _read_set(self, source: DataSource, wanted: ArtifactId) -> bytes:
        data = b""
        async with source.read(SET_FILE, None, 0) as reading:
            while len(data) <= SET_BYTES_MOST and (more := await reading.next()):
                data += more
        self.received_bytes += len(data)
        try:
            load_set(data, wanted)
        except RemoteError as error:
            raise RemoteError(f"{SET_FILE}: {error}") from error
        return data

    def _failed(self, ranked: _Ranked, error: UnreachableError | RemoteError) -> str:
        said = f"{ranked.source.name}: {error}"
        if ranked.ready_s > trio.current_time():
            return said  # several files were asked of it at a time: it is left alone already
        ranked.failures += 1
        lied = isinstance(error, RemoteError)
        ranked.lies += lied
        base_s, most_s = (LIED_BASE_S, LIED_MOST_S) if lied else (FAILED_BASE_S, FAILED_MOST_S)
        times = ranked.lies if lied else ranked.failures
        pause_s = backoff_s(times, self._dice, base_s=base_s, most_s=most_s)
        ranked.ready_s = trio.current_time() + pause_s
        if lied or ranked.failures == 1:
            log.warning(
                "source of data %s: %s: others are asked for %.0f s",
                ranked.source.name,
                error,
                pause_s,
            )
        return said
