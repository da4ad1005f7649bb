"""How long leases should be, so that trainers of any pace are ready together. Microseconds.

A trainer says in its signed update how long its lease took. That moves the length of its own next lease, within
what delivering and missing allow: who lies gets leases that it misses, or short ones. One that says nothing is
not paced. Others are only measured by the median, so that no minority can shorten their leases.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from p2pd.core.decision import Standing
from p2pd.core.ids import PeerId
from p2pd.core.work import MILLION

KEPT, OF = 3, 4
"""Of the old pace, when a new one comes."""
SLACK, SLACK_OF = 9, 8
"""So much longer than a typical window a lease may take. What a lease takes besides its microshards makes short ones
look slow: without some room, who has missed one would stay with short leases."""
NOISE = MILLION // 4
"""By so much equal machines may differ in a window."""
MOMENT_US = 200_000
"""To wait so long for somebody costs nothing beside a decision; fetching a head may differ by it."""


@dataclass(frozen=True, slots=True)
class Paces:
    """Of a window that is over."""

    said: Mapping[PeerId, int]
    """What a microshard took each that delivered and said so."""
    together: frozenset[PeerId]
    """Those who are to be ready together: who worked in the window."""


UNKNOWN = Paces({}, frozenset())


def roughly(count: int) -> int:
    """To the nearest number of three binary digits: jitter is no pace, and what is signed follows from it."""
    shift = max(0, count.bit_length() - 3)
    return (count + (1 << shift >> 1)) >> shift << shift


def paced(row: Standing, said_us: int) -> Standing:
    """The record of a peer that has delivered."""
    smoothed = (row.shard_us * KEPT + said_us * (OF - KEPT)) // OF if row.shard_us else said_us
    return replace(row, shard_us=max(1, smoothed))


def fitted(
    rows: Mapping[PeerId, Standing], paces: Paces, max_lease_shards: int
) -> Iterable[Standing]:
    """The records of those that delivered, with leases that take hardly longer than a typical trainer's longest.

    Typical is the median, of two the faster one: so the slower half is ready when the faster one is. Who is hardly
    slower keeps its lease: of few microshards the next shorter one is much shorter.
    """
    known = sorted(rows[peer].shard_us for peer in paces.together if peer in rows)
    known = [pace for pace in known if pace]
    if not known:
        return
    typical_us = known[(len(known) - 1) // 2]
    window_us = max_lease_shards * typical_us
    for peer in paces.said:
        row = rows[peer]
        if _is_slow(row, typical_us):
            most = window_us * SLACK // (SLACK_OF * row.shard_us) + 1
            yield replace(row, budget_shards=min(row.budget_shards, most))


def _is_slow(row: Standing, typical_us: int) -> bool:
    later_us = row.shard_us - typical_us
    noise_us = typical_us * NOISE // MILLION
    return later_us > noise_us and later_us * row.budget_shards > MOMENT_US
