"""How certified verdicts move a peer's record. Slowness, lateness and a lost link only shorten its next lease."""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from p2pd.core.decision import Standing, State
from p2pd.core.ids import PeerId
from p2pd.core.pace import UNKNOWN, Paces, fitted, paced
from p2pd.core.revision import Schedule
from p2pd.core.work import FULL, Verdict

HARMFUL = frozenset({Verdict.LAYOUT, Verdict.SCHEMA, Verdict.NONFINITE, Verdict.LEASE})
"""Verdicts that no honest trainer with a working machine can earn by bad luck."""
QUARANTINE_BELOW = FULL // 4
"""Reached by the third harmful verdict in a row."""
QUARANTINE_HEIGHTS = 32


class Conduct(Enum):
    DELIVERED = "delivered"
    LATE = "late"
    """Delivered while the window after its own was open."""
    MISSED = "missed"
    HARMFUL = "harmful"
    WRONG_MERGE = "wrong merge"


MISDEEDS = frozenset({Conduct.HARMFUL, Conduct.WRONG_MERGE})


def newcomer(peer: PeerId, schedule: Schedule) -> Standing:
    return Standing(peer, schedule.lease_shards, 0, 0, 0, 0, FULL, 0)


def may_serve(state: State, peer: PeerId, height: int) -> bool:
    """False while a peer is in quarantine."""
    row = next((row for row in state.standing if row.peer == peer), None)
    return row is None or row.quarantined_until <= height


def moved(
    state: State,
    conduct: Mapping[PeerId, Conduct],
    schedule: Schedule,
    height: int,
    paces: Paces = UNKNOWN,
) -> tuple[Standing, ...]:
    """The standing rows after a window in which some peers showed some conduct."""
    rows = {row.peer: row for row in state.standing}
    for peer, what in conduct.items():
        row = rows.get(peer) or newcomer(peer, schedule)
        row = _judged(row, what, schedule)
        # A low score of old does not send back a peer that has served its time and does no harm.
        rows[peer] = _quarantined(row, height) if what in MISDEEDS else row
    rows.update({peer: paced(rows[peer], said_us) for peer, said_us in paces.said.items()})
    rows.update({row.peer: row for row in fitted(rows, paces, schedule.max_lease_shards)})
    return tuple(rows[peer] for peer in sorted(rows) if _worth_keeping(rows[peer]))


def _worth_keeping(row: Standing) -> bool:
    # A crowd of identities that never deliver leaves no trace in the state that all nodes carry.
    return bool(row.delivered or row.rejected or row.wrong_merges)


def _judged(row: Standing, what: Conduct, schedule: Schedule) -> Standing:
    match what:
        case Conduct.DELIVERED:
            longer = row.budget_shards + max(1, row.budget_shards // 4)
            return replace(
                row,
                delivered=row.delivered + 1,
                budget_shards=min(longer, schedule.max_lease_shards),
                score=row.score + (FULL - row.score + 7) // 8,
            )
        case Conduct.LATE:
            # Counts as work, and is no reason for a longer lease.
            return replace(
                row, delivered=row.delivered + 1, score=row.score + (FULL - row.score + 7) // 8
            )
        case Conduct.MISSED:
            return replace(row, missed=row.missed + 1, budget_shards=max(1, row.budget_shards // 2))
        case Conduct.HARMFUL:
            return replace(row, rejected=row.rejected + 1, score=row.score // 2)
        case Conduct.WRONG_MERGE:
            return replace(row, wrong_merges=row.wrong_merges + 1, score=row.score // 2)


def _quarantined(row: Standing, height: int) -> Standing:
    if row.score >= QUARANTINE_BELOW or row.quarantined_until > height:
        return row
    return replace(row, quarantined_until=height + 1 + QUARANTINE_HEIGHTS)
