"""From whatever an asynchronous time left behind, a height ends once messages arrive, whoever is missing."""

from random import Random

import pytest

from p2pd.core.ids import DecisionId
from p2pd.core.votes import NO_ROUND, Step
from p2pd.core.voting.events import Defence
from tests.core.voting.calm import Calm
from tests.core.voting.making import A_CHOICES, B_CHOICES, Bench, unit_members
from tests.core.voting.search import Search, State

OPINIONS = [frozenset({A_CHOICES}), frozenset({B_CHOICES}), frozenset({A_CHOICES, B_CHOICES})]
NOTHING: frozenset[Defence] = frozenset()


def replayed(search: Search, state: State, who: int, draw: Random) -> bytes | None:
    """What a validator stored in the one round that was searched, with the quorum that there was.

    The search left out precommits for nil: half of those who could have sent one did.
    """
    votes, valid = state[who]
    bench = Bench(search.members, who)
    if votes:
        search.enter_round(bench, state, ("enter", 0, votes[0].value, NO_ROUND))
    if valid:
        search.show_quorum(bench, state, ("see", 0, valid[0], NO_ROUND))
    assert bench.machine._memory.votes() == search.signed(who, votes)
    if bench.machine.view().step == Step.PREVOTE and draw.random() < 0.5:
        bench.machine._rules._precommit(None)
    return bench.machine._memory.encode() if votes else None


def continued(
    search: Search, state: State, left: list[int], draw: Random, off: frozenset[Defence]
) -> DecisionId | None:
    """What those that are left decide, each restarted from what it stored, with opinions of its own."""
    benches = [
        Bench(search.members, who, off=off, stored=replayed(search, state, who, draw))
        for who in left
    ]
    calm = Calm(benches, [draw.choice(OPINIONS) for _ in left])
    for who, bench in enumerate(benches):
        calm.carry_out(who, bench.resume())
        calm.carry_out(who, bench.close())
    calm.exchange()
    return calm.run(until_round=4 * len(search.members.rows) + 2)


def outcomes(
    count: int, quorum: int, liars: int, crashed: int, off: frozenset[Defence]
) -> list[DecisionId | None]:
    search = Search(unit_members(count, quorum), count - liars, 1)
    assert search.run() is None
    draw = Random(7)
    states = sorted(search.seen, key=repr)
    found = []
    for _ in range(150):
        left = draw.sample(range(search.honest), search.honest - crashed)
        found.append(continued(search, draw.choice(states), sorted(left), draw, off))
    return found


@pytest.mark.parametrize(
    ("count", "quorum", "liars", "crashed"), [(3, 2, 0, 1), (4, 3, 1, 0), (4, 3, 0, 1)]
)
def test_i02_every_start_ends(count: int, quorum: int, liars: int, crashed: int) -> None:
    assert None not in outcomes(count, quorum, liars, crashed, NOTHING)


@pytest.mark.parametrize(("count", "quorum", "liars", "crashed"), [(3, 2, 0, 1), (4, 3, 1, 0)])
def test_without_the_judgement_rule_some_starts_never_end(
    count: int, quorum: int, liars: int, crashed: int
) -> None:
    assert None in outcomes(count, quorum, liars, crashed, frozenset({Defence.JUDGEMENT}))
