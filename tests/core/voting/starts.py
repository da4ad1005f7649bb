"""What an asynchronous time can leave behind, and what the real machines make of it once all messages arrive."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from p2pd.core.voting.events import Close, Defence
from tests.core.voting.calm import Calm
from tests.core.voting.making import UNDECIDED, Bench, unit_members, value_of
from tests.core.voting.reference import Model, Places
from tests.core.voting.search import (
    CHOICES,
    NIL,
    VALUES,
    Local,
    Search,
    State,
    everything,
    locked,
)

JUDGING_LOCKS = frozenset({Defence.JUDGEMENT})
Opinions = tuple[int, ...]
"""What each honest validator judges badly, or NIL."""


@dataclass
class Figures:
    """Of all starts of one set."""

    states: int = 0
    """That the real machines reach, opinions included."""
    starts: int = 0
    """Different locks and valid decisions, opinions, and validators that crash then."""
    stuck_before_undecided: int = 0
    """Not decided once each had its turn, while the undecided decision may not be proposed."""
    stuck: int = 0
    """Never decided."""


@dataclass
class Starts:
    """Each honest validator likes both decisions, or one of them; liars vote for all, and then fall silent."""

    count: int
    quorum: int
    liars: int
    crashed: int
    rounds: int
    off: frozenset[Defence] = frozenset()

    def __post_init__(self) -> None:
        self.members = unit_members(self.count, self.quorum)
        self.honest = self.count - self.liars
        self.search = Search(self.members, (everything(self.rounds),) * self.liars, self.rounds)
        self.ended: dict[tuple[tuple[int, int, Local], ...], tuple[bool, bool]] = {}

    def opinions(self) -> Iterator[Opinions]:
        return product((NIL, *VALUES), repeat=self.honest)

    def reached(self, opinions: Opinions) -> dict[Places, State]:
        """What the real machines come to; of each, one way to be there."""
        self.search.off, self.search.rejected = self.off, opinions
        states = self.search.run_in_step().seen
        return {places_of(state): state for state in sorted(states)}

    def model(self, opinions: Opinions) -> Model:
        return Model(self.quorum, self.liars, opinions, judges_locks=bool(self.off))

    def figures(self, chosen: Iterable[Opinions] | None = None) -> Figures:
        """Of all opinions, or some. Raises AssertionError where the real machines and the model differ."""
        figures = Figures()
        for opinions in self.opinions() if chosen is None else chosen:
            reached, model = self.reached(opinions), self.model(opinions)
            assert set(reached) == model.reachable(self.rounds)
            figures.states += len(self.search.seen)
            for places, state in reached.items():
                for left in combinations(range(self.honest), self.honest - self.crashed):
                    soon, ever = self.ends(opinions, state, left)
                    undecided = self.members.undecided_round
                    assert soon == model.ends(places, list(left), self.rounds, None)
                    assert ever == model.ends(places, list(left), self.rounds, undecided)
                    figures.starts += 1
                    figures.stuck_before_undecided += not soon
                    figures.stuck += not ever
        return figures

    def ends(self, opinions: Opinions, state: State, left: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether those that are left decide before the undecided decision may be proposed; and at all."""
        place = tuple((who, opinions[who], state[who]) for who in left)
        if place not in self.ended:
            calm = self.continued(place, state)
            soon = calm.run(until_round=min(self.rounds + self.count, self.undecided_round))
            ever = calm.run(until_round=self.undecided_round + self.count)
            self.ended[place] = (soon not in (None, value_of(UNDECIDED)), ever is not None)
        return self.ended[place]

    @property
    def undecided_round(self) -> int:
        return self.members.undecided_round

    def continued(self, place: tuple[tuple[int, int, Local], ...], state: State) -> Calm:
        """Each loaded from what it stored, at the start of the first round in which all messages arrive.

        As after any start they listen first, and tell each other what they hold.
        """
        benches = [
            Bench(self.members, who, off=self.off, stored=self.search.replayed(who, state))
            for who, _, _ in place
        ]
        likes = [
            frozenset(choices for value, choices in CHOICES.items() if value != bad)
            for _, bad, _ in place
        ]
        calm = Calm(benches, likes)
        for bench in benches:
            bench.machine._rules.listening = True
        calm.exchange()
        for bench in benches:
            bench.machine._rules.listening = False
            bench.machine._rules._start_round(self.rounds, bench.now_s)
        for who, bench in enumerate(benches):
            calm.carry_out(who, bench.machine.handle(Close(), bench.now_s))
        return calm


def places_of(state: State) -> Places:
    return tuple((locked(local), local[1]) for local in state)
