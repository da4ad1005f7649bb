"""Making up for lost messages: what I hold of a height, and what a peer lacks of it.

Source: docs/decision-protocol.md, section 4, lost messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Step, Vote
from p2pd.core.voting.members import Members
from p2pd.core.voting.proposals import Proposal
from p2pd.core.voting.shelf import Shelf
from p2pd.core.voting.tally import Tally

ROUNDS_MAX = 32
"""That one inventory describes."""
ROWS_MAX = 1024
VOTES_MAX = 512
"""In one answer; the next inventory asks for the rest."""
PROPOSALS_MAX = 2

Row = tuple[Step, int, DecisionId | None, int]
"""Step, round, value, just."""


@dataclass(frozen=True, slots=True)
class Holding:
    step: Step
    round: int
    value: DecisionId | None
    just: int
    voters: bytes
    """One bit per member, ascending by peer id, the first in the lowest bit of the first byte."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a validator holds of the rounds in play."""

    rounds: tuple[int, ...]
    """Those in play, ascending, whether or not anything is held of them."""
    proposals: tuple[int, ...]
    """Rounds of which the proposal is held."""
    votes: tuple[Holding, ...]


class Exchange:
    def __init__(self, members: Members, tally: Tally, shelf: Shelf) -> None:
        self._members = members
        self._tally = tally
        self._shelf = shelf

    def in_play(self, rounds: Iterable[int]) -> list[int]:
        """Those rounds and every one that a pol or a just in them names, ascending.

        Where that is too many, rounds with the quorum that is spoken of come first: a liar can name any.
        """
        found: dict[int, None] = {}
        named: dict[int, None] = {}
        todo = [round_ for round_ in rounds if round_ >= 0]
        while todo:
            round_ = todo.pop(0)
            if round_ in found:
                continue
            found[round_] = None
            for value, earlier in self._names(round_):
                if value in self._tally.quorums(earlier):
                    todo.append(earlier)
                else:
                    named[earlier] = None
        return sorted(list({**found, **named})[:ROUNDS_MAX])

    def _names(self, round_: int) -> list[tuple[DecisionId | None, int]]:
        """Earlier quorums that votes and the proposal of a round rest on."""
        rests = [
            (vote.content.value, vote.content.just)
            for vote in self._tally.votes_in(round_)
            if vote.content.just != NO_ROUND
        ]
        held = self._shelf.get(round_)
        if held is not None and held.backed is not None:
            rests.append((held.backed, held.proposal.content.pol))
        return rests

    def inventory(self, rounds: Iterable[int]) -> Inventory:
        in_play = self.in_play(rounds)
        bits: dict[Row, bytearray] = {}
        for round_ in in_play:
            for vote in self._tally.votes_in(round_):
                row = bits.setdefault(_row(vote), bytearray((len(self._members.rows) + 7) // 8))
                position = self._members.positions[vote.author]
                row[position // 8] |= 1 << position % 8
        return Inventory(
            tuple(in_play),
            tuple(round_ for round_ in in_play if self._shelf.get(round_)),
            tuple(Holding(*row, bytes(voters)) for row, voters in bits.items())[-ROWS_MAX:],
        )

    def missing(
        self, rounds: Iterable[int], theirs: Inventory
    ) -> list[Signed[Vote] | Signed[Proposal]]:
        """What I hold, of my rounds in play and of theirs, and they do not; newest round first."""
        held = {(row.step, row.round, row.value, row.just): row.voters for row in theirs.votes}
        wanted = sorted({*self.in_play(rounds), *theirs.rounds[-ROUNDS_MAX:]}, reverse=True)
        proposals: list[Signed[Vote] | Signed[Proposal]] = []
        votes: list[Signed[Vote] | Signed[Proposal]] = []
        for round_ in wanted:
            mine = self._shelf.get(round_)
            if mine is not None and round_ not in theirs.proposals:
                proposals.append(mine.proposal)
            votes += [
                vote
                for vote in self._tally.votes_in(round_)
                if not _holds(held.get(_row(vote), b""), self._members.positions[vote.author])
            ]
        return proposals[:PROPOSALS_MAX] + votes[:VOTES_MAX]


def _row(vote: Signed[Vote]) -> Row:
    content = vote.content
    return (content.step, content.round, content.value, content.just)


def _holds(voters: bytes, position: int) -> bool:
    return position // 8 < len(voters) and bool(voters[position // 8] >> position % 8 & 1)
