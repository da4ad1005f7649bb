"""Files of data sets on this node: brought, pinned while they are needed, dropped when others need room.

What is here of them has a share of the store for itself; in it the least recently used go first. Units: seconds, bytes.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import trio

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.backoff import backoff_s
from p2pd.core.ids import ArtifactId, PeerId, short
from p2pd.core.seldom import Seldom
from p2pd.core.shards import SET_BYTES_MOST, SHARD_FORMAT, ShardFile, ShardSet, load_set
from p2pd.core.wording import counted
from p2pd.errors import NoRoomError, P2pError, UnreachableError
from p2pd.node.sources import Sources
from p2pd.node.transfer import Transfer
from p2pd.node.wanted import Wanted
from p2pd.ports import BlobStore

log = logging.getLogger("p2pd.data")

OFFER = "data"
"""What a node says in its hello and in its record that has whole data sets to give."""
SETS = "data sets"
"""Owner of the pins of manifests."""
FILES_AT_A_TIME = 8
LINKED_BEFORE_SOURCES = 3
"""Of the peers that do not say that they have data, so many are asked where there are sources as well."""
PAUSE_BASE_S, PAUSE_MOST_S = 0.5, 15.0
"""Before all are asked once more for a file that nobody gave."""
TOLD_EVERY_S = 30.0
TOLD_FROM = 4
"""Failures of a file in a row: a node that has just started knows nobody yet."""


@dataclass(frozen=True, slots=True)
class Givers:
    """Whom to ask."""

    named: Sequence[PeerId]
    """Those who say that they have data."""
    linked: Sequence[PeerId]


class DataFiles:
    def __init__(
        self,
        blobs: BlobStore,
        transfer: Transfer,
        dice: Random,
        givers: Callable[[], Givers],
        quota_bytes: int,
        sources: Sources,
    ) -> None:
        """quota_bytes: what fetched files may take; 0 for all that the store has. Sources are asked after peers."""
        self.sources = sources
        self.brought_files = 0
        self.brought_bytes = 0
        self.last_failure = "nobody was asked yet"
        self._blobs = blobs
        self._transfer = transfer
        self._dice = dice
        self._givers = givers
        self._quota_bytes = quota_bytes
        self._room = trio.Lock()
        self._sets: dict[ArtifactId, ShardSet] = {}
        self._pinned: dict[str, tuple[ArtifactId, ...]] = {}
        self._told = Seldom(TOLD_EVERY_S)
        self._told_brought = Seldom(TOLD_EVERY_S)

    async def find(self, wanted: ArtifactId) -> ShardSet:
        """The manifest of a set; brings it if it is not here, and tries until cancelled.

        Raises:
            RemoteError: what has this id is no set.
            StoreError: there is no room for it.
        """
        found = self._sets.get(wanted)
        if found is not None:
            return found
        self._blobs.pin(wanted, SETS)
        if not await self._is_here(wanted):
            kind = ArtifactKind.SHARD_SET
            sought = Wanted(wanted, kind, SHARD_FORMAT, SET_BYTES_MOST)
            await self._bring(sought, partial(self.sources.find, wanted))
        found = load_set(await self._payload(wanted), wanted)
        self._sets[wanted] = found
        return found

    async def bring(self, files: Sequence[ShardFile], owner: str) -> None:
        """All of these files are here when this returns, and pinned until owner lets go. It tries until cancelled.

        Raises:
            RemoteError: an id names something else than the set says.
            StoreError: there is no room for them.
        """
        manifests = [one.manifest for one in files]
        self._pin(manifests, owner)
        async with self._room:
            await self._make_room(manifests)
            missing = [one for one in files if not await self._is_here(one.manifest.id)]
            for one in missing:
                await self._blobs.begin(one.manifest)
        todo, failures = iter(missing), list[P2pError]()
        async with trio.open_nursery() as nursery:

            async def bring_some() -> None:
                try:
                    await self._bring_each(todo)
                except P2pError as error:
                    failures.append(error)
                    nursery.cancel_scope.cancel()

            for _ in missing[:FILES_AT_A_TIME]:
                nursery.start_soon(bring_some)
        if failures:
            raise failures[0]
        self._say_brought(missing)

    def _say_brought(self, files: Sequence[ShardFile]) -> None:
        self.brought_files += len(files)
        self.brought_bytes += _bytes_of(one.manifest for one in files)
        if files and self._told_brought.due(trio.current_time()) is not None:
            log.info(
                "%s of data brought since the start, %d bytes",
                counted(self.brought_files, "file"),
                self.brought_bytes,
            )

    def let_go(self, owner: str) -> None:
        for artifact in self._pinned.pop(owner, ()):
            self._blobs.unpin(artifact, owner)

    def _pin(self, files: Sequence[Manifest], owner: str) -> None:
        before = self._pinned.get(owner, ())
        self._pinned[owner] = tuple(one.id for one in files)
        for artifact in self._pinned[owner]:
            self._blobs.pin(artifact, owner)
        for artifact in set(before) - set(self._pinned[owner]):
            self._blobs.unpin(artifact, owner)

    async def _is_here(self, artifact: ArtifactId) -> bool:
        if not self._blobs.has(artifact) or not await self._blobs.check(artifact):
            return False
        self._blobs.touch(artifact)
        return True

    async def _payload(self, artifact: ArtifactId) -> bytes:
        manifest = self._blobs.manifest(artifact)
        count = 0 if manifest is None else len(manifest.chunks)
        return b"".join([await self._blobs.read(artifact, n) or b"" for n in range(count)])

    async def _make_room(self, files: Sequence[Manifest]) -> None:
        """Drops what it must, least recently used first."""
        if not self._quota_bytes:
            return
        pinned = {artifact for pins in self._pinned.values() for artifact in pins}
        new = {one.id: one for one in files if not self._blobs.has(one.id)}
        held = [one for one in self._blobs.held(ArtifactKind.SHARD) if one.id not in new]
        free = [one for one in held if one.id not in pinned]
        lacking = _bytes_of((*held, *new.values())) - self._quota_bytes
        if lacking > _bytes_of(free):
            raise NoRoomError(
                f"{len(files)} files of data take {_bytes_of(files)} bytes, and with what else is in"
                f" use {lacking - _bytes_of(free)} more than data.quota_bytes: raise it, or lease less"
            )
        for one in free:
            if lacking <= 0:
                return
            if await self._blobs.drop(one.id):
                lacking -= one.size_bytes

    async def _bring_each(self, todo: Iterator[ShardFile]) -> None:
        for one in todo:
            manifest = one.manifest
            sought = Wanted(manifest.id, manifest.kind, manifest.schema, manifest.size_bytes)
            await self._bring(sought, partial(self.sources.bring, one))

    async def _bring(self, wanted: Wanted, from_source: Callable[[], Awaitable[str]]) -> None:
        """From peers, else from a source, which says why it does not come from there."""
        failures = 0
        while True:
            givers = self._givers()
            linked = list(givers.linked)
            if self.sources:  # to ask all would take a round trip for each
                linked = self._dice.sample(linked, min(len(linked), LINKED_BEFORE_SOURCES))
            try:
                await self._transfer.fetch(wanted, givers.named, others=linked, rounds=1)
            except UnreachableError as error:
                why = str(error)
            else:
                return
            if self.sources:
                if not (said := await from_source()):
                    return
                why = f"{why}; {said}"
            failures += 1
            self._failed(wanted.artifact, why, failures)
            base_s, most_s = PAUSE_BASE_S, PAUSE_MOST_S
            await trio.sleep(backoff_s(failures, self._dice, base_s=base_s, most_s=most_s))

    def _failed(self, artifact: ArtifactId, why: str, failures: int) -> None:
        self.last_failure = why
        if failures < TOLD_FROM:
            return
        if self._told.due(trio.current_time()) is not None:
            log.warning("data %s do not come: %s: they are asked for again", short(artifact), why)


def _bytes_of(files: Iterable[Manifest]) -> int:
    return sum(one.size_bytes for one in files)
