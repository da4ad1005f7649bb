"""The whole search, a few minutes for each part: python -m tests.core.voting.full_search [safety] [forks] [starts]

Ends with 1 if anything is not as docs/decision-protocol.md says.
"""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

from tests.core.voting.forks import caught, single_votes
from tests.core.voting.making import unit_members
from tests.core.voting.reference import Model, Places
from tests.core.voting.search import NIL, Said, Search, everything
from tests.core.voting.starts import JUDGING_LOCKS, Figures, Starts, places_of

Row = tuple[str, object, object]
"""What, found, expected."""

MODEL_VOTES = 160_020
"""States of three validators in three rounds that a model without justs and proposers has."""


def safety() -> Iterator[Row]:
    for count, quorum, liars, rounds, states in (
        (3, 2, 0, 2, 21_031),
        (4, 3, 1, 2, 21_031),
    ):
        search = searched(count, quorum, (everything(rounds),) * liars, rounds)
        yield f"{name(count, quorum, liars, rounds)}: states", len(search.seen), states
        yield "  forks", len(search.forks), 0
    for count, quorum, liars, states in ((3, 2, 0, 731_784), (4, 3, 1, 731_784)):
        search = searched(count, quorum, (everything(3),) * liars, 3, alike=True)
        yield f"{name(count, quorum, liars, 3)}, alike: states", len(search.seen), states
        yield "  of them, justs aside", len(votes_alone(search)), MODEL_VOTES
        yield "  forks", len(search.forks), 0
    for count, quorum, liars in ((3, 2, 0), (4, 3, 1)):
        lies = (everything(2),) * liars
        search = Search(unit_members(count, quorum), lies, 2, alike=True).run()
        reached = {tuple(sorted(places_of(state))) for state in search.seen}
        model = Model(quorum, liars, (NIL,) * (count - liars)).reachable(2)
        yield (
            f"{name(count, quorum, liars, 2)}: locks and valid",
            len(reached),
            len(model_of(model)),
        )
        yield "  the same as the model's", reached == model_of(model), True


def searched(
    count: int, quorum: int, lies: tuple[tuple[Said, ...], ...], rounds: int, *, alike: bool = False
) -> Search:
    members = unit_members(count, quorum)
    return Search(members, lies, rounds, alike=alike, late=False).run(all_forks=True)


def votes_alone(search: Search) -> set[object]:
    """Prevotes and precommits by round, whoever they are by."""
    return {
        tuple(sorted(tuple(vote[:3] for vote in votes) for votes, _ in state))
        for state in search.seen
    }


def model_of(reachable: set[Places]) -> set[Places]:
    return {tuple(sorted(places)) for places in reachable}


def forks() -> Iterator[Row]:
    for count, quorum, liars, found in ((3, 2, 1, 320), (4, 3, 2, 320)):
        search = searched(count, quorum, (everything(2),) * liars, 2)
        yield f"{name(count, quorum, liars, 2)}, voting for all: forks", len(search.forks), found
        yield "  that name the liars alone", named(search), found
    singles = list(single_votes(2))
    total = [searched(3, 2, (votes,), 2) for votes in singles]
    yield f"{name(3, 2, 1, 2)}, one vote each: forks", sum(len(each.forks) for each in total), 84
    yield "  that name the liar alone", sum(map(named, total)), 84
    pairs = combinations_with_replacement(singles + [mirrored(votes) for votes in singles], 2)
    total = [searched(4, 3, pair, 2) for pair in pairs]
    yield f"{name(4, 3, 2, 2)}, one vote each: forks", sum(len(each.forks) for each in total), 176
    yield "  that name the liars alone", sum(map(named, total)), 176


def named(search: Search) -> int:
    return sum(caught(search, fork) for fork in search.forks)


def mirrored(votes: tuple[Said, ...]) -> tuple[Said, ...]:
    """With the decisions' names exchanged."""
    return tuple((step, round_, 3 - value, just) for step, round_, value, just in votes)


def starts() -> Iterator[Row]:
    for count, quorum, liars, crashed, off, figures in (
        (3, 2, 0, 1, True, Figures(1_252_059, 16_017, 1_758, 1_296)),
        (3, 2, 0, 1, False, Figures(1_464_799, 31_749, 138, 0)),
        (4, 3, 1, 0, True, Figures(1_252_059, 5_339, 1_164, 1_008)),
        (4, 3, 1, 0, False, Figures(1_464_799, 10_583, 12, 0)),
    ):
        defences = JUDGING_LOCKS if off else frozenset()
        found = Starts(count, quorum, liars, crashed, 2, defences).figures()
        rule = "without the judgement rule" if off else "with it"
        yield f"{name(count, quorum, liars, 2)}, {crashed} crash, {rule}", found, figures


def name(count: int, quorum: int, liars: int, rounds: int) -> str:
    return f"{count} validators, quorum {quorum}, {liars} lying, {rounds} rounds"


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "safety": safety,
    "forks": forks,
    "starts": starts,
}


def main(names: list[str]) -> int:
    wrong = 0
    for part in names or PARTS:
        started_s = time.monotonic()
        for what, found, expected in PARTS[part]():
            mark = "" if found == expected else f"   EXPECTED {expected}"
            wrong += found != expected
            spent_s = time.monotonic() - started_s
            sys.stdout.write(f"{part:7} {what}: {found}{mark}  ({spent_s:.0f} s)\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
