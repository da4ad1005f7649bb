"""Ports that break their promise, each in one way, to show what the promise is for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import trio

from p2pd.core.ids import ArtifactId
from p2pd.core.work import Inspection, InspectJob, Merged, MergeJob, RebuildJob
from p2pd.ports import Ledger, Math, Table, Write

LAZY_S = 5.0
"""About what a disk cache keeps to itself, where nobody asks it to write."""


@dataclass(slots=True)
class LazyLedger:
    """Port Ledger, for one life of a node. Votes are durable some time after the commit that promised it."""

    ledger: Ledger
    waiting: list[tuple[float, Write]] = field(default_factory=list)
    """Since when. A crash loses them."""

    async def commit(self, writes: Sequence[Write]) -> None:
        now_s = trio.current_time()
        due = [write for since_s, write in self.waiting if since_s + LAZY_S <= now_s]
        self.waiting = [one for one in self.waiting if one[0] + LAZY_S > now_s]
        for write in writes:
            if write.table is Table.VOTING:
                self.waiting = [one for one in self.waiting if one[1].key != write.key]
                self.waiting.append((now_s, write))
            else:
                due.append(write)
        await self.ledger.commit(due)

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self.ledger.get(table, key)

    def scan(
        self, table: Table, prefix: bytes, *, after: bytes = b"", limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        return self.ledger.scan(table, prefix, after=after, limit=limit)

    def last(self, table: Table, prefix: bytes) -> tuple[bytes, bytes] | None:
        return self.ledger.last(table, prefix)


@dataclass(slots=True)
class ArrivalMath:
    """Port Math. Merges in the order in which this node came to see the updates."""

    math: Math
    merged: Callable[[MergeJob, Merged], None]
    seen: list[ArtifactId] = field(default_factory=list)

    async def inspect(self, job: InspectJob) -> Inspection:
        self.seen.append(job.artifact)
        return await self.math.inspect(job)

    async def merge(self, job: MergeJob) -> Merged:
        known = [one for one in job.inputs if one.artifact in self.seen]
        known.sort(key=lambda one: self.seen.index(one.artifact))
        inputs = (*known, *(one for one in job.inputs if one not in known))
        result = await self.math.merge(replace(job, inputs=inputs))
        self.merged(job, result)
        return result

    async def rebuild(self, job: RebuildJob) -> None:
        await self.math.rebuild(job)

    async def self_test(self) -> None:
        await self.math.self_test()
