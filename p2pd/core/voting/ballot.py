"""How to prevote on a proposal. Source: docs/decision-protocol.md, sections 2 to 4."""

from dataclasses import dataclass

from p2pd.core.ids import DecisionId
from p2pd.core.votes import MAX_REASONS, NO_ROUND, Reason
from p2pd.core.voting.durable import Backed
from p2pd.core.voting.events import Defence, Judgement
from p2pd.core.voting.results import Results
from p2pd.core.voting.shelf import Held


@dataclass(frozen=True, slots=True)
class Ballot:
    """A prevote, not signed yet."""

    value: DecisionId | None
    just: int
    reasons: tuple[Reason, ...]


NIL = Ballot(None, NO_ROUND, ())


@dataclass(frozen=True, slots=True)
class Voter:
    """What a prevote depends on beside the proposal and its check."""

    undecided_round: int
    undecided: bytes
    off: frozenset[Defence]

    def ballot(self, held: Held, results: Results, locked: Backed | None) -> Ballot | None:
        """None until enough is known about the proposal."""
        proposal = held.proposal.content
        checked = results.judged(proposal.choices)
        value = results.value(proposal.choices)
        # With a quorum others derived it: what could not be fetched at first is waited for.
        judged = proposal.pol == NO_ROUND or Defence.JUDGEMENT in self.off
        if (checked if judged else value) is None:
            return None
        if value is None or not results.objective(value) or not self._fits(held, results, value):
            return Ballot(None, NO_ROUND, checked.reasons[:MAX_REASONS] if checked else ())
        if not self._free(proposal.pol, value, locked):
            return NIL
        lock_round = locked.round if locked and locked.value == value else NO_ROUND
        return Ballot(value, max(proposal.pol, lock_round), ())

    def backs(self, results: Results, value: DecisionId) -> bool | None:
        """Whether a quorum makes it valid for me; None while that is not known."""
        objective = results.objective(value)
        if not objective or Defence.JUDGEMENT not in self.off:
            return objective
        checked = results.judged(results.choices(value))
        return checked is None or checked.judgement != Judgement.REJECT

    def _fits(self, held: Held, results: Results, value: DecisionId) -> bool:
        """Whether such a proposal may be made in its round and, if it is fresh, is judged well."""
        proposal = held.proposal.content
        checked = results.judged(proposal.choices)
        rejected = checked is not None and checked.judgement == Judgement.REJECT
        if proposal.pol != NO_ROUND:
            return value == held.backed and not (rejected and Defence.JUDGEMENT in self.off)
        undecided = proposal.choices == self.undecided
        if proposal.round >= self.undecided_round:
            return undecided
        return not undecided and not rejected

    def _free(self, pol: int, value: DecisionId, locked: Backed | None) -> bool:
        """Whether my lock lets me vote for it."""
        if locked is None or locked.value == value or Defence.LOCK in self.off:
            return True
        return pol != NO_ROUND and locked.round <= pol
