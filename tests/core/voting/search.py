"""Every way in which a few validators can vote in a few rounds, whatever the network does.

What one validator does next is asked of the real machine, which is loaded from what it stored, shown some of the
votes that exist, and stored again. It may act on any of them, at any time, or never; every timer may fire at any
time; proposers may propose anything to anyone. So delay and loss need not be modelled. Reductions that lose no
fork: every round is entered (a skipped one is a prevote for nil), and nobody precommits nil. Liars back every
vote for every value at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Certificate, Step, Vote
from p2pd.core.voting.events import CertificateSeen, Defence
from p2pd.core.voting.evidence import breaks_lock, says_twice
from p2pd.core.voting.members import Members
from p2pd.core.voting.quorums import VOTE, quorate_rounds
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    SCOPE,
    A,
    B,
    Bench,
    Signer,
    prevote,
    proposal,
)

CHOICES = {A: A_CHOICES, B: B_CHOICES}
Valid = tuple[DecisionId, int] | None
Local = tuple[tuple[Vote, ...], Valid]
"""A validator's own votes, and what it would propose again."""
State = tuple[Local, ...]
Move = tuple[str, int, DecisionId | None, int]
"""What, round, value, pol."""


@dataclass
class Search:
    members: Members
    honest: int
    """The rest, at the end, are liars."""
    rounds: int
    off: frozenset[Defence] = frozenset()
    seen: set[State] = field(default_factory=set)
    asked: dict[tuple[int, Local, Move], Local] = field(default_factory=dict)
    stored: dict[tuple[int, Local], bytes] = field(default_factory=dict)

    def run(self) -> State | None:
        """A state with two certificates; None if there is none, and every state was seen."""
        start: State = (((), None),) * self.honest
        self.seen.add(start)
        todo = [start]
        while todo:
            state = todo.pop()
            for after in self.successors(state):
                if after in self.seen:
                    continue
                self.seen.add(after)
                if len(self.certified(after)) > 1:
                    return after
                todo.append(after)
        return None

    def successors(self, state: State) -> Iterator[State]:
        quorums = {value: self.quorate(state, value) for value in CHOICES}
        for who in range(self.honest):
            for move in self.moves(who, state[who], quorums):
                local = self.ask(who, state, move)
                if local != state[who]:
                    yield (*state[:who], local, *state[who + 1 :])

    def moves(self, who: int, local: Local, quorums: dict[DecisionId, set[int]]) -> Iterator[Move]:
        current = max((vote.round for vote in local[0]), default=-1)
        following = current + 1
        for value, rounds in quorums.items():
            if current in rounds:
                yield ("see", current, value, NO_ROUND)
        if following < self.rounds:
            yield ("enter", following, None, NO_ROUND)
            mine = following % len(self.members.rows) == who
            for value, rounds in quorums.items():
                yield ("enter", following, value, NO_ROUND)
                if not mine:
                    for pol in sorted(rounds):
                        if pol < following:
                            yield ("enter", following, value, pol)

    def ask(self, who: int, state: State, move: Move) -> Local:
        place = (who, state[who], move)
        if place not in self.asked:
            bench = Bench(
                self.members, who, off=self.off, stored=self.stored.get((who, state[who]))
            )
            bench.machine._rules.listening = False
            if move[0] == "see":
                self.show_quorum(bench, state, move)
            else:
                self.enter_round(bench, state, move)
            memory = bench.machine._memory
            votes = tuple(signed.content for signed in memory.votes())
            if not self.off:
                check_honest(memory.votes())
            local = (votes, bench.machine.view().valid)
            self.stored.setdefault((who, local), memory.encode())
            self.asked[place] = local
        return self.asked[place]

    def show_quorum(self, bench: Bench, state: State, move: Move) -> None:
        _, _, value, _ = move
        assert value is not None
        bench.fetched(CHOICES[value])
        bench.hear(*self.prevotes(state, value, move[1]))

    def enter_round(self, bench: Bench, state: State, move: Move) -> None:
        _, round_, value, pol = move
        bench.machine._rules._start_round(round_, bench.now_s)
        if value is not None:
            choices = CHOICES[value]
            if bench.machine._me == self.members.proposer(SCOPE.height, round_).key:
                bench.built(round_, choices)
            else:
                quorum = () if pol == NO_ROUND else self.prevotes(state, value, pol)
                bench.hear(proposal(self.members, round_, choices, pol, quorum))
            bench.checked(choices)
        bench.wait(0.0 if bench.machine.view().step == Step.PREVOTE else 10.0)

    # What exists

    def signed(self, who: int, votes: tuple[Vote, ...]) -> list[Signed[Vote]]:
        return [Signer(self.members.rows[who].key)(VOTE, SCOPE, vote) for vote in votes]

    def prevotes(self, state: State, value: DecisionId, up_to: int) -> tuple[Signed[Vote], ...]:
        """Of rounds up to that one; liars prevote whatever it is."""
        honest = [
            signed
            for who, (votes, _) in enumerate(state)
            for signed in self.signed(who, votes)
            if signed.content.step == Step.PREVOTE
            and signed.content.value == value
            and signed.content.round <= up_to
        ]
        liars = [
            prevote(self.members, who, round_, value)
            for who in range(self.honest, len(self.members.rows))
            for round_ in range(up_to + 1)
        ]
        return (*honest, *liars)

    def quorate(self, state: State, value: DecisionId) -> set[int]:
        """As quorate_rounds has it, without making the votes."""
        liars = len(self.members.rows) - self.honest
        found = {NO_ROUND}
        for round_ in range(self.rounds):
            weight = liars + sum(
                vote.step == Step.PREVOTE
                and (vote.round, vote.value) == (round_, value)
                and vote.just in found
                for votes, _ in state
                for vote in votes
            )
            if weight >= self.members.quorum:
                found.add(round_)
        return found - {NO_ROUND}

    def precommitters(self, state: State, value: DecisionId, round_: int) -> list[int]:
        honest = [
            who
            for who, (votes, _) in enumerate(state)
            if any(
                (vote.step, vote.round, vote.value) == (Step.PRECOMMIT, round_, value)
                for vote in votes
            )
        ]
        return honest + list(range(self.honest, len(self.members.rows)))

    def certified(self, state: State) -> dict[DecisionId, int]:
        return {
            value: round_
            for value in CHOICES
            for round_ in self.quorate(state, value)
            if len(self.precommitters(state, value, round_)) >= self.members.quorum
        }

    def certificate(self, state: State, value: DecisionId) -> Certificate:
        round_ = self.certified(state)[value]
        precommits = tuple(
            Signer(self.members.rows[who].key)(
                VOTE, SCOPE, Vote(Step.PRECOMMIT, round_, value, NO_ROUND, ())
            )
            for who in self.precommitters(state, value, round_)
        )
        prevotes = self.prevotes(state, value, round_)
        assert round_ in quorate_rounds(self.members, prevotes)
        return Certificate(value, round_, precommits, prevotes)


def check_honest(votes: list[Signed[Vote]]) -> None:
    """Nothing that a real machine signs is ever evidence against it."""
    for first, second in combinations(votes, 2):
        assert not says_twice(first, second)
        assert not breaks_lock(first, second)
        assert not breaks_lock(second, first)


def show_both(members: Members, first: Certificate, second: Certificate) -> list[object]:
    """What somebody who only counts makes of two certificates."""
    bench = Bench(members, None)
    effects: list[object] = []
    for certificate in (first, second):
        effects += bench.machine.handle(CertificateSeen(certificate), 0.0)
    return effects
