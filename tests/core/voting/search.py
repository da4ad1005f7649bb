"""Every way in which a few validators can vote in a few rounds, whatever the network does.

What one validator does next is asked of the real machine, which is loaded from what it stored, shown some of the
votes that exist, and stored again. It may act on any of them, at any time, or never; every timer may fire at any
time; proposers may propose anything to anyone. So delay and loss need not be modelled. Reductions that lose no
state of interest: every round is entered (a skipped one is a prevote for nil), and nobody precommits nil except to
learn of a quorum without a lock (it only takes moves away). What liars sign they have signed from the start:
honest validators need not see it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import combinations

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Signed
from p2pd.core.votes import NO_ROUND, Certificate, Step, Vote
from p2pd.core.voting.events import Defence, Judgement
from p2pd.core.voting.evidence import breaks_lock, says_twice
from p2pd.core.voting.members import Member, Members
from p2pd.core.voting.quorums import VOTE, quorate_rounds
from p2pd.core.voting.tally import Tally
from tests.core.voting.making import (
    A_CHOICES,
    B_CHOICES,
    SCOPE,
    A,
    B,
    Bench,
    Signer,
    proposal,
)

NIL, ONE, TWO = 0, 1, 2
"""Decisions by number: numbers sort."""
VALUES = (ONE, TWO)
IDS: dict[int, DecisionId | None] = {NIL: None, ONE: A, TWO: B}
NUMBERS = {identity: number for number, identity in IDS.items()}
CHOICES = {ONE: A_CHOICES, TWO: B_CHOICES}
NOTHING = (NIL, NO_ROUND)

Said = tuple[Step, int, int, int]
"""A vote: step, round, value, just."""
Backed = tuple[int, int]
"""A value and the round of its quorum."""
Local = tuple[tuple[Said, ...], Backed]
"""A validator's own votes, and its valid decision."""
State = tuple[Local, ...]
NEW: Local = ((), NOTHING)


class What(IntEnum):
    ENTER = 0
    """A round: get a proposal, or none in time, and prevote."""
    SEE = 1
    """A quorum of prevotes."""
    SEE_LATE = 2
    """The same after a precommit for nil."""


Move = tuple[What, int, int, int]
"""What, round, value, pol."""


def locked(local: Local) -> Backed:
    """The last decision precommitted."""
    for step, round_, value, _ in reversed(local[0]):
        if step == Step.PRECOMMIT and value != NIL:
            return value, round_
    return NOTHING


def standing(local: Local) -> tuple[int, int]:
    """Round and step."""
    return (local[0][-1][1], local[0][-1][0]) if local[0] else (NO_ROUND, Step.IDLE)


class OthersPropose(Members):
    """As the first member sees it if it never proposes itself: all others are alike then.

    Whatever a proposer prevotes it prevotes as well if somebody else proposes it, so that no vote is lost.
    """

    def proposer(self, height: int, round_: int) -> Member:
        return self.rows[-1]


@dataclass
class Search:
    members: Members
    lies: tuple[tuple[Said, ...], ...]
    """What each of the liars signed, who come last."""
    rounds: int
    off: frozenset[Defence] = frozenset()
    rejected: Sequence[int] = ()
    """For each honest validator the one decision that it judges badly, or NIL."""
    alike: bool = False
    """Honest validators never propose; so they are interchangeable, and their states are sorted."""
    late: bool = True
    """Whether a quorum may be learned without a lock."""
    seen: set[State] = field(default_factory=set)
    forks: list[State] = field(default_factory=list)
    asked: dict[tuple[int, int, Local, Move], Local] = field(default_factory=dict)
    stored: dict[tuple[int, int, Local], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.honest = len(self.members.rows) - len(self.lies)
        self.mine = self.members
        if self.alike:
            self.mine = OthersPropose(self.members.thresholds, self.members.rows)

    def run(self, *, all_forks: bool = False) -> "Search":
        """Stops at the first fork unless all are asked for; nothing follows upon a fork."""
        start: State = (NEW,) * self.honest
        self.seen.add(start)
        todo = [start]
        while todo:
            for after in self.successors(todo.pop()):
                if after in self.seen:
                    continue
                self.seen.add(after)
                if len(self.certified(after)) > 1:
                    self.forks.append(after)
                    if not all_forks:
                        return self
                    continue
                todo.append(after)
        return self

    def run_in_step(self) -> "Search":
        """All that is reachable at the end of the last round, and nothing on the way there.

        A vote rests on prevotes of its own round and of earlier ones alone. So any run can be put in another order:
        all enter a round, then all learn what they learn there, then all enter the next.
        """
        states: set[State] = {(NEW,) * self.honest}
        for _ in range(self.rounds):
            for who in range(self.honest):
                states = {after for state in states for after in self.entering(who, state)}
            for who in range(self.honest):
                states = {after for state in states for after in self.learning(who, state)}
        self.seen = states
        return self

    def entering(self, who: int, state: State) -> Iterator[State]:
        for move in self.moves(who, state[who], self.quorums(state)):
            if move[0] == What.ENTER:
                yield (*state[:who], self.ask(who, state, move), *state[who + 1 :])

    def learning(self, who: int, state: State) -> set[State]:
        found, todo, quorums = {state}, [state], self.quorums(state)
        while todo:
            before = todo.pop()
            for move in self.moves(who, before[who], quorums):
                if move[0] != What.ENTER:
                    after = (*state[:who], self.ask(who, before, move), *state[who + 1 :])
                    if after not in found:
                        found.add(after)
                        todo.append(after)
        return found

    def quorums(self, state: State) -> list[tuple[int, set[int]]]:
        return [(value, self.quorate(state, value)) for value in VALUES]

    def successors(self, state: State) -> Iterator[State]:
        quorums = self.quorums(state)
        for who, local in enumerate(state):
            if self.alike and who and local == state[who - 1]:
                continue
            for move in self.moves(who, local, quorums):
                after = self.ask(who, state, move)
                if after != local:
                    others = (*state[:who], after, *state[who + 1 :])
                    yield tuple(sorted(others)) if self.alike else others

    def moves(self, who: int, local: Local, quorums: list[tuple[int, set[int]]]) -> Iterator[Move]:
        current, step = standing(local)
        for value, rounds in quorums:
            for round_ in rounds:
                if round_ == current and step == Step.PREVOTE:
                    yield (What.SEE, round_, value, NO_ROUND)
                if local[1][1] < round_ <= current and self.late:
                    yield (What.SEE_LATE, round_, value, NO_ROUND)
        following = current + 1
        if following < self.rounds:
            yield (What.ENTER, following, NIL, NO_ROUND)
            proposer = self.mine.proposer(SCOPE.height, following)
            mine = not self.alike and proposer is self.members.rows[who]
            for value, rounds in quorums:
                yield (What.ENTER, following, value, NO_ROUND)
                if not mine:
                    for pol in rounds:
                        if pol < following:
                            yield (What.ENTER, following, value, pol)

    # What the real machine does

    def ask(self, who: int, state: State, move: Move) -> Local:
        local = state[who]
        disliked = self.rejected[who] if self.rejected else NIL
        if self.alike:
            state = (local, *state[:who], *state[who + 1 :])
            who = 0
        place = (who, disliked, local, move)
        if place not in self.asked:
            bench = Bench(self.mine, who, off=self.off, stored=self.stored.get(place[:3]))
            bench.machine._rules.listening = False
            if move[0] == What.ENTER:
                self.enter_round(bench, state, move, disliked)
            else:
                if move[0] == What.SEE_LATE and bench.machine.view().step == Step.PREVOTE:
                    bench.machine._rules._precommit(None)
                self.show_quorum(bench, state, move[1:3], disliked)
            memory = bench.machine._memory
            if not self.off:
                check_honest(memory.votes())
            after = read(bench)
            self.stored.setdefault((who, disliked, after), memory.encode())
            self.asked[place] = after
        return self.asked[place]

    def enter_round(self, bench: Bench, state: State, move: Move, disliked: int) -> None:
        _, round_, value, pol = move
        bench.machine._rules._start_round(round_, bench.now_s)
        if value != NIL:
            choices = CHOICES[value]
            if bench.machine._me == self.mine.proposer(SCOPE.height, round_).key:
                bench.built(round_, choices)
            else:
                quorum = () if pol == NO_ROUND else self.prevotes(state, value, pol)
                bench.hear(proposal(self.mine, round_, choices, pol, quorum))
            bench.checked(choices, opinion(value, disliked))
        bench.wait(0.0 if bench.machine.view().step == Step.PREVOTE else 10.0)

    def show_quorum(
        self, bench: Bench, state: State, where: tuple[int, int], disliked: int
    ) -> None:
        round_, value = where
        bench.checked(CHOICES[value], opinion(value, disliked))
        bench.hear(*self.prevotes(state, value, round_))

    def replayed(self, who: int, state: State) -> bytes | None:
        """What a validator stored on its way to where it is in that state."""
        local, disliked = state[who], self.rejected[who] if self.rejected else NIL
        bench = Bench(self.mine, who, off=self.off)
        for step, round_, value, just in local[0]:
            if step == Step.PREVOTE:
                if just > read(bench)[1][1]:
                    self.show_quorum(bench, state, (just, value), disliked)
                self.enter_round(bench, state, (What.ENTER, round_, value, just), disliked)
            elif value == NIL:
                bench.machine._rules._precommit(None)
            else:
                self.show_quorum(bench, state, (round_, value), disliked)
        if read(bench) != local:
            self.show_quorum(bench, state, (local[1][1], local[1][0]), disliked)
        assert read(bench) == local
        return bench.machine._memory.encode() if local[0] else None

    # What exists

    def said(self, state: State) -> list[tuple[Said, ...]]:
        """By each member."""
        return [*(votes for votes, _ in state), *self.lies]

    def prevotes(self, state: State, value: int, up_to: int) -> tuple[Signed[Vote], ...]:
        """Of rounds up to that one."""
        return tuple(
            sign(self.members, who, vote)
            for who, votes in enumerate(self.said(state))
            for vote in votes
            if vote[0] == Step.PREVOTE and vote[2] == value and vote[1] <= up_to
        )

    def quorate(self, state: State, value: int) -> set[int]:
        """As quorate_rounds has it, without making the votes; weights are 1."""
        counts: dict[int, list[int]] = {}
        for votes in self.said(state):
            for step, round_, voted, just in votes:
                if step == Step.PREVOTE and voted == value:
                    counts.setdefault(round_, []).append(just)
        found = {NO_ROUND}
        for round_ in sorted(counts):
            if sum(just in found for just in counts[round_]) >= self.members.quorum:
                found.add(round_)
        found.discard(NO_ROUND)
        return found

    def certified(self, state: State) -> dict[int, int]:
        """Values with a certificate, and its round."""
        counts: dict[tuple[int, int], int] = {}
        for votes in self.said(state):
            for step, round_, value, _ in votes:
                if step == Step.PRECOMMIT and value != NIL:
                    counts[value, round_] = counts.get((value, round_), 0) + 1
        return {
            value: round_
            for (value, round_), count in counts.items()
            if count >= self.members.quorum and round_ in self.quorate(state, value)
        }

    def certificate(self, state: State, value: int) -> Certificate:
        """As the real tally makes it of all votes."""
        tally = Tally(self.members, SCOPE.height)
        for who, votes in enumerate(self.said(state)):
            for vote in votes:
                tally.add(sign(self.members, who, vote))
        identity, round_ = IDS[value], self.certified(state)[value]
        assert identity is not None
        made = tally.certificate(identity, round_)
        assert round_ in quorate_rounds(self.members, made.prevotes)
        return made


def read(bench: Bench) -> Local:
    """Where a real machine stands."""
    votes = tuple(
        (vote.step, vote.round, NUMBERS[vote.value], vote.just)
        for vote in (signed.content for signed in bench.machine._memory.votes())
    )
    valid = bench.machine.view().valid
    return votes, (NUMBERS[valid[0]], valid[1]) if valid else NOTHING


def sign(members: Members, who: int, vote: Said) -> Signed[Vote]:
    step, round_, value, just = vote
    content = Vote(step, round_, IDS[value], just, ())
    return Signer(members.rows[who].key)(VOTE, SCOPE, content)


def opinion(value: int, disliked: int) -> Judgement:
    return Judgement.REJECT if value == disliked else Judgement.ACCEPT


def everything(rounds: int) -> tuple[Said, ...]:
    """What a liar signs that backs every decision at once."""
    return tuple(
        (step, round_, value, NO_ROUND)
        for round_ in range(rounds)
        for step in (Step.PREVOTE, Step.PRECOMMIT)
        for value in VALUES
    )


def check_honest(votes: list[Signed[Vote]]) -> None:
    """Nothing that a real machine signs is ever evidence against it."""
    for first, second in combinations(votes, 2):
        assert not says_twice(first, second)
        assert not breaks_lock(first, second)
        assert not breaks_lock(second, first)
