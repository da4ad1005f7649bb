"""The rules by which a validator votes, looked at again from the top whenever something changed.

Units: seconds. Source: docs/decision-protocol.md, sections 4 and 5.
"""

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, assert_never

from p2pd.core.ids import DecisionId, PeerId, PublicKey
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import MAX_ROUND, NO_ROUND, Certificate, Reason, ReasonKind, Step, Vote
from p2pd.core.voting.ballot import Ballot, Voter
from p2pd.core.voting.box import Box
from p2pd.core.voting.durable import Backed, Memory
from p2pd.core.voting.events import (
    Build,
    Check,
    Closed,
    Decided,
    Defence,
    Effect,
    FetchValue,
    ForeignVote,
    Persist,
    RoundStarted,
    Send,
)
from p2pd.core.voting.members import Members
from p2pd.core.voting.proposals import PROPOSAL, Proposal
from p2pd.core.voting.quorums import VOTE
from p2pd.core.voting.results import Results
from p2pd.core.voting.timers import CheckTimes, Timer, propose_timeout_s

T = TypeVar("T")

SLOW = Ballot(None, NO_ROUND, (Reason(ReasonKind.SLOW, b"", 0),))


class Sign(Protocol):
    def __call__(self, kind: str, scope: Scope, content: T) -> Signed[T]: ...


@dataclass(frozen=True, slots=True)
class Setup:
    """What a height is voted on with."""

    members: Members
    scope: Scope
    me: PublicKey | None
    """None: counts, and never votes. A key that is no member votes, and counts nowhere."""
    sign: Sign
    checks: CheckTimes
    """Shared by all heights of the revision."""
    undecided: bytes
    """The choices of the undecided decision of this height."""
    defences_off: frozenset[Defence] = frozenset()
    """Only to show what a rule is for."""


class Rules:
    def __init__(self, setup: Setup, box: Box, results: Results, memory: Memory) -> None:
        self.memory = memory
        self.certificate: Certificate | None = None
        self.listening = False
        self.effects: list[Effect] = []
        """What is to be carried out, in this order; its reader takes it away."""
        self._members, self._scope, self._me = setup.members, setup.scope, setup.me
        self._sign, self._undecided = setup.sign, setup.undecided
        self._checks, self._off = setup.checks, setup.defences_off
        self._box, self._tally, self._results = box, box.tally, results
        self._voter = Voter(setup.members.undecided_round, setup.undecided, setup.defences_off)
        self._timers: dict[Timer, float] = {}
        self._marks: set[Timer] = set()
        """Timers that this round armed: each is armed once."""
        self._wanted: set[DecisionId] = set()
        self._heard: set[PeerId] = set()
        """Validators that have said what they hold of this height."""
        self._building: int | None = None
        """The round that choices were asked for."""

    def settle(self, now_s: float) -> None:
        """Acts until no rule's condition holds."""
        while self.certificate is None and self._act(now_s):
            pass

    def close(self) -> None:
        self._stand(closed=True)

    def listen(self, now_s: float) -> None:
        """No vote is sent until the others had time to say what this key sent in an earlier life.

        The time counts from when so many were heard that they and this one can decide: with fewer there is
        nothing to vote for.
        """
        self.listening = True
        self._end_listening_if_enough(now_s)

    def hear(self, peer: PeerId, now_s: float) -> None:
        self._heard.add(peer)
        if self.listening:
            self._end_listening_if_enough(now_s)

    def _end_listening_if_enough(self, now_s: float) -> None:
        weight = sum(
            member.weight
            for member in self._members.rows
            if member.peer in self._heard or member.key == self._me
        )
        if weight >= self._members.quorum and Timer.LISTEN not in self._timers:
            self._arm(Timer.LISTEN, now_s + propose_timeout_s(0))

    # Timers

    def next_deadline_s(self) -> float | None:
        return min(self._timers.values(), default=None)

    def expire_next(self, now_s: float) -> None:
        """Carries out the timer that is due first."""
        due = min(self._timers, key=lambda timer: (self._timers[timer], timer))
        del self._timers[due]
        self._expire(due, now_s)

    def _arm(self, timer: Timer, deadline_s: float) -> None:
        self._timers[timer] = deadline_s

    def _disarm(self, *timers: Timer) -> None:
        for timer in timers:
            self._timers.pop(timer, None)

    def _expire(self, timer: Timer, now_s: float) -> None:
        """A timer that no longer means anything was disarmed."""
        match timer:
            case Timer.LISTEN:
                self.listening = False
                self._resume()
            case Timer.PROPOSE | Timer.CHECK:
                self._prevote(SLOW)
            case Timer.PREVOTE:
                self._precommit(None)
            case Timer.PRECOMMIT:
                self._start_round(self.memory.position.round + 1, now_s)
            case _:
                assert_never(timer)

    def _resume(self) -> None:
        """Says again what was said in the stored round; the rules then arm the timers of its step.

        A step of propose is stored only with my own proposal, whose check is a rule.
        """
        if not self._silent():
            said = self.memory.of_round(self.memory.position.round)
            self.effects += [Send(message) for message in said]

    # Rules

    def _act(self, now_s: float) -> bool:
        """Carries out the first rule whose condition holds. False once none does."""
        if self._tally.certified is not None:
            self.decide(self._tally.certificate(*self._tally.certified))
            return False
        if self._silent():
            return self._follow()
        if self.listening:
            return False
        here = self.memory.position
        if not here.closed and self._tally.others_closed():
            self._stand(closed=True)
            self.effects.append(Closed())
            return True
        if (loudest := self._tally.loudest_round()) > here.round:
            self._start_round(loudest, now_s)
            return True
        if here.step == Step.IDLE and (here.closed or self._hurried()):
            self._start_round(0, now_s)
            return True
        return (
            self._on_proposal(now_s)
            or self._on_prevotes_for_a_value()
            or self._on_prevotes(now_s)
            or self._on_precommits(now_s)
        )

    def _hurried(self) -> bool:
        """Never, while early proposals are held."""
        return Defence.EARLY in self._off and self._box.shelf.get(0) is not None

    def _silent(self) -> bool:
        return self._me is None or self.memory.position.muted

    def _follow(self) -> bool:
        """Counts only; what is far ahead moves with the others."""
        round_ = max(self.memory.position.round, self._tally.loudest_round())
        self._tally.current = round_
        self._stand(round_=round_)
        return False

    def decide(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self._timers.clear()
        self.effects.append(Decided(certificate))

    def _start_round(self, round_: int, now_s: float) -> None:
        here = self.memory.position
        if round_ > MAX_ROUND:
            return  # only liars of weight a lead there, and then no progress is promised
        if not here.closed:
            self.effects.append(Closed())
        self._stand(round_=round_, step=Step.PROPOSE, closed=True)
        self._tally.current = round_
        self._marks.clear()
        self._timers.clear()
        self.effects.append(RoundStarted(round_))
        self._arm(Timer.PROPOSE, now_s + propose_timeout_s(round_))
        self._propose()

    def _propose(self) -> None:
        round_ = self.memory.position.round
        if self._members.proposer(self._scope.height, round_).key != self._me:
            return
        if self.memory.valid is not None:
            self._propose_valid(self.memory.valid)
        elif round_ >= self._members.undecided_round:
            self._send_proposal(Proposal(round_, NO_ROUND, self._undecided, ()))
        else:
            self._building = round_
            self.effects.append(Build(round_))

    def _propose_valid(self, valid: Backed) -> None:
        round_ = self.memory.position.round
        self._send_proposal(Proposal(round_, valid.round, valid.choices, valid.quorum))

    def _on_proposal(self, now_s: float) -> bool:
        here = self.memory.position
        held = self._box.shelf.get(here.round)
        if here.step != Step.PROPOSE or held is None:
            return False
        first = Timer.CHECK not in self._marks
        if first:
            self._results.retry(held.proposal.content.choices)
        ballot = self._voter.ballot(held, self._results, self.memory.locked)
        if ballot is not None:
            self._prevote(ballot)
            return True
        if first:
            self._marks.add(Timer.CHECK)
            self._disarm(Timer.PROPOSE)
            self._arm(Timer.CHECK, now_s + self._checks.timeout_s(here.round))
            if self._results.start(held.proposal.content.choices, now_s):
                self.effects.append(Check(held.proposal.content.choices, held.proposal))
        return False

    def _on_prevotes_for_a_value(self) -> bool:
        """valid follows the highest round up to this one; a lock is taken in this round only."""
        here, valid = self.memory.position, self.memory.valid
        for round_ in self._tally.quorate(valid.round if valid else NO_ROUND, here.round):
            for value in self._tally.quorums(round_):
                backed = self._voter.backs(self._results, value)
                if backed is None:
                    self._want(value)
                elif backed and (round_ < here.round or here.step >= Step.PREVOTE):
                    self._back(value, round_)
                    return True
        return False

    def _back(self, value: DecisionId, round_: int) -> None:
        here, memory = self.memory.position, self.memory
        quorum = self._tally.closure(round_, value)
        memory.valid = Backed(value, round_, self._results.choices(value), quorum)
        if here.round == round_ and here.step == Step.PREVOTE:
            memory.locked = memory.valid
            self._precommit(value)

    def _want(self, value: DecisionId) -> None:
        if value not in self._wanted:
            self._wanted.add(value)
            self.effects.append(FetchValue(value, self._box.holders(value)))

    def _on_prevotes(self, now_s: float) -> bool:
        here = self.memory.position
        if here.step != Step.PREVOTE:
            return False
        if self._tally.nil_quorum(here.round):
            self._precommit(None)
            return True
        if self._tally.any_weight(Step.PREVOTE, here.round) < self._members.quorum:
            return False
        if self._tally.hopeless(here.round):
            self._precommit(None)
            return True
        if Timer.PREVOTE not in self._marks:
            self._marks.add(Timer.PREVOTE)
            wait_s = max(propose_timeout_s(here.round), self._checks.timeout_s(here.round))
            self._arm(Timer.PREVOTE, now_s + wait_s)
        return False

    def _on_precommits(self, now_s: float) -> bool:
        round_ = self.memory.position.round
        if (
            Timer.PRECOMMIT not in self._marks
            and self._tally.any_weight(Step.PRECOMMIT, round_) >= self._members.quorum
        ):
            self._marks.add(Timer.PRECOMMIT)
            self._arm(Timer.PRECOMMIT, now_s + propose_timeout_s(round_))
        return False

    # Own messages

    def _stand(
        self,
        *,
        round_: int | None = None,
        step: Step | None = None,
        closed: bool | None = None,
        muted: bool | None = None,
    ) -> None:
        here = self.memory.position
        self.memory.position = replace(
            here,
            round=here.round if round_ is None else round_,
            step=here.step if step is None else step,
            closed=here.closed if closed is None else closed,
            muted=here.muted if muted is None else muted,
        )

    def _send_proposal(self, content: Proposal) -> None:
        proposal = self._sign(PROPOSAL, self._scope, content)
        self.memory.add_proposal(proposal)
        self.effects += [Persist(self.memory.encode()), Send(proposal)]
        self._box.add_own_proposal(proposal)

    def _prevote(self, ballot: Ballot) -> None:
        self._disarm(Timer.PROPOSE, Timer.CHECK)
        self._send_vote(Step.PREVOTE, ballot)

    def _precommit(self, value: DecisionId | None) -> None:
        self._disarm(Timer.PREVOTE)
        self._send_vote(Step.PRECOMMIT, Ballot(value, NO_ROUND, ()))

    def _send_vote(self, step: Step, ballot: Ballot) -> None:
        round_ = self.memory.position.round
        content = Vote(step, round_, ballot.value, ballot.just, ballot.reasons)
        vote = self._sign(VOTE, self._scope, content)
        self._stand(step=step)
        self.memory.add_vote(vote)
        self.effects += [Persist(self.memory.encode()), Send(vote)]
        self._tally.add(vote)

    # What else the machine hands in

    def built(self, round_: int, choices: bytes) -> None:
        here = self.memory.position
        if self._building != round_ or (here.round, here.step) != (round_, Step.PROPOSE):
            return
        self._building = None
        if self.memory.valid is not None:
            self._propose_valid(self.memory.valid)
        else:
            self._send_proposal(Proposal(round_, NO_ROUND, choices, ()))

    def mute(self, message: Signed[Vote] | Signed[Proposal]) -> None:
        if self.memory.position.muted:
            return
        self._stand(muted=True)
        self._timers.clear()
        self.effects.append(Persist(self.memory.encode()))
        if not self.listening:
            self.effects.append(ForeignVote(message))
