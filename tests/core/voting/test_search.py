"""The bound of weight that may lie, shown on every interleaving of the real machine's votes.

The full search, of up to three rounds, is `make search`; its figures are in docs/decision-protocol.md.
"""

import pytest

from p2pd.core.voting.events import Defence
from tests.core.voting.forks import caught, single_votes
from tests.core.voting.making import unit_members
from tests.core.voting.reference import Model
from tests.core.voting.search import NIL, ONE, TWO, Search, everything
from tests.core.voting.starts import JUDGING_LOCKS, places_of


@pytest.mark.parametrize(
    ("count", "quorum", "liars", "rounds", "states"),
    [(3, 2, 0, 2, 21031), (2, 2, 1, 3, 124), (3, 3, 2, 2, 31)],
)
def test_i01_no_fork_exists_up_to_the_bound(
    count: int, quorum: int, liars: int, rounds: int, states: int
) -> None:
    members = unit_members(count, quorum)
    assert liars <= members.thresholds.lying_max
    search = Search(members, (everything(rounds),) * liars, rounds, late=False).run()
    assert not search.forks
    assert len(search.seen) == states
    assert any(search.certified(state) for state in search.seen)


@pytest.mark.parametrize(("count", "quorum", "liars"), [(3, 2, 0), (4, 3, 1)])
def test_i01_the_machines_reach_the_locks_and_valid_decisions_of_the_model(
    count: int, quorum: int, liars: int
) -> None:
    lies, likes = (everything(2),) * liars, (ONE, TWO, NIL)
    search = Search(unit_members(count, quorum), lies, 2, rejected=likes).run_in_step()
    reached = {places_of(state) for state in search.seen}
    assert reached == Model(quorum, liars, likes).reachable(2)


def test_i01_an_order_by_rounds_loses_no_lock_and_no_valid_decision() -> None:
    search, ordered = (
        Search(unit_members(3, 2), (), 2, off=JUDGING_LOCKS, rejected=(ONE, TWO, TWO))
        for _ in range(2)
    )
    every = {places_of(state) for state in search.run().seen}
    assert every == {places_of(state) for state in ordered.run_in_step().seen}
    assert len(every) > 1


@pytest.mark.parametrize(("count", "quorum", "liars"), [(3, 2, 1), (4, 3, 2)])
def test_i01_beyond_the_bound_forks_exist_and_each_names_the_liars_and_nobody_else(
    count: int, quorum: int, liars: int
) -> None:
    members = unit_members(count, quorum)
    assert liars == members.thresholds.lying_max + 1
    lies = (everything(2),) * liars
    search = Search(members, lies, 2, late=False).run(all_forks=True)
    assert search.forks
    assert all(caught(search, fork) for fork in search.forks)


def test_i01_a_liar_that_never_votes_twice_is_named_by_each_of_its_forks() -> None:
    forks = 0
    for votes in single_votes(2):
        search = Search(unit_members(3, 2), (votes,), 2, late=False).run(all_forks=True)
        assert all(caught(search, fork) for fork in search.forks)
        forks += len(search.forks)
    assert forks == 84


def test_i01_without_the_lock_honest_validators_fork() -> None:
    off = frozenset({Defence.LOCK})
    assert Search(unit_members(3, 2), (), 2, off=off, late=False).run().forks
