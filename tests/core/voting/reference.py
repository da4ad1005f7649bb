"""What validators can come to, without machines, messages or signatures: a model to hold against the real code.

It goes round by round: all prevote, then each learns of a quorum or does not. That loses nothing, since a vote rests on
prevotes of its own round and of earlier ones alone. Liars back everything. Weights are 1; values are numbers, as in
search.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from p2pd.core.votes import NO_ROUND
from tests.core.voting.search import NIL, NOTHING, VALUES, Backed

UNDECIDED = 3
Place = tuple[Backed, Backed]
"""Locked and valid."""
Places = tuple[Place, ...]
Quorums = tuple[Backed, ...]


@dataclass(frozen=True)
class Model:
    quorum: int
    liars: int
    rejected: tuple[int, ...]
    """For each honest validator the decision that it judges badly, or NIL."""
    judges_locks: bool = False
    """Without the judgement rule: what I judge badly I neither lock nor prevote, whatever its quorum."""

    def reachable(self, rounds: int) -> set[Places]:
        """What all can be locked on, and hold valid, after so many rounds."""
        states: set[tuple[Places, Quorums]] = {(((NOTHING, NOTHING),) * len(self.rejected), ())}
        for round_ in range(rounds):
            states = {after for state in states for after in self._round(round_, *state)}
        return {places for places, _ in states}

    def _round(
        self, round_: int, places: Places, quorums: Quorums
    ) -> Iterator[tuple[Places, Quorums]]:
        ballots = [self._ballots(who, place[0], quorums) for who, place in enumerate(places)]
        for votes in {tuple(sorted(votes)) for votes in product(*ballots)}:
            weights = {value: self.liars + votes.count(value) for value in VALUES}
            reached = [value for value in VALUES if weights[value] >= self.quorum]
            now = (*quorums, *((value, round_) for value in reached))
            ends = [self._ends(who, place, round_, reached) for who, place in enumerate(places)]
            for after in product(*ends):
                yield after, now

    def _ballots(self, who: int, lock: Backed, quorums: Quorums) -> set[int]:
        fresh = {
            value for value in VALUES if value != self.rejected[who] and lock[0] in (NIL, value)
        }
        again = {
            value
            for value, of in quorums
            if (lock[1] <= of or lock[0] == value) and self._backs(who, value)
        }
        return {NIL} | fresh | again

    def _ends(self, who: int, place: Place, round_: int, reached: list[int]) -> list[Place]:
        """Learns of no quorum, learns of one too late to lock, or locks."""
        lock, _ = place
        ends = [place]
        for value in reached:
            if self._backs(who, value):
                ends += [(lock, (value, round_)), ((value, round_), (value, round_))]
        return ends

    def _backs(self, who: int, value: int) -> bool:
        return not self.judges_locks or value != self.rejected[who]

    def ends(self, places: Places, alive: list[int], start: int, undecided: int | None) -> bool:
        """Whether those left decide once all that is said arrives, from round start on; nothing else happens to them.

        undecided: the round from which on that is proposed; None: never.
        """
        places = tuple(self._told(who, places, alive) for who in range(len(places)))
        count = len(places) + self.liars
        last = start + count if undecided is None else undecided + count
        return any(
            round_ % count in alive and self._passes(places, alive, round_, undecided)
            for round_ in range(start, last)
        )

    def _told(self, who: int, places: Places, alive: list[int]) -> Place:
        """All learn of the latest quorum that somebody alive knows, unless they would not back its value."""
        lock, valid = places[who]
        known = [places[other][1] for other in alive if self._backs(who, places[other][1][0])]
        return lock, max([valid, *known], key=lambda backed: backed[1])

    def _passes(self, places: Places, alive: list[int], round_: int, undecided: int | None) -> bool:
        proposer = round_ % (len(places) + self.liars)
        value, pol = places[proposer][1]
        if value == NIL:
            fresh = [each for each in VALUES if each != self.rejected[proposer]]
            value = fresh[0] if undecided is None or round_ < undecided else UNDECIDED
        votes = [who for who in alive if self._agrees(who, places[who][0], value, pol)]
        return len(votes) >= self.quorum

    def _agrees(self, who: int, lock: Backed, value: int, pol: int) -> bool:
        free = lock[0] in (NIL, value) or (pol != NO_ROUND and lock[1] <= pol)
        liked = value != self.rejected[who]
        return free and (liked or (pol != NO_ROUND and not self.judges_locks))
