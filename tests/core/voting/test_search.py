"""The bound of weight that may lie, shown on every interleaving of the real machine's votes."""

import pytest

from p2pd.core.ids import PeerId
from p2pd.core.voting.events import Accuse, Defence, Forked
from p2pd.core.voting.evidence import check_evidence
from tests.core.voting.making import A, B, unit_members
from tests.core.voting.search import Search, show_both


@pytest.mark.parametrize(
    ("count", "quorum", "liars", "rounds"), [(3, 2, 0, 2), (4, 3, 1, 2), (2, 2, 1, 3), (3, 3, 2, 2)]
)
def test_i01_no_fork_exists_up_to_the_bound(
    count: int, quorum: int, liars: int, rounds: int
) -> None:
    members = unit_members(count, quorum)
    assert liars <= members.thresholds.lying_max
    search = Search(members, count - liars, rounds)
    assert search.run() is None
    assert any(search.certified(state) for state in search.seen)


@pytest.mark.parametrize(("count", "quorum", "liars"), [(3, 2, 1), (4, 3, 2)])
def test_i01_beyond_the_bound_a_fork_exists_and_names_liars_only(
    count: int, quorum: int, liars: int
) -> None:
    members = unit_members(count, quorum)
    assert liars == members.thresholds.lying_max + 1
    search = Search(members, count - liars, 2)
    forked = search.run()
    assert forked is not None
    effects = show_both(members, search.certificate(forked, A), search.certificate(forked, B))
    assert any(isinstance(effect, Forked) for effect in effects)
    named: set[PeerId | None] = {
        check_evidence(members, effect.evidence) for effect in effects if isinstance(effect, Accuse)
    }
    assert named == {row.peer for row in members.rows[count - liars :]}


def test_i01_without_the_lock_honest_validators_fork() -> None:
    search = Search(unit_members(3, 2), 3, 2, off=frozenset({Defence.LOCK}))
    assert search.run() is not None
