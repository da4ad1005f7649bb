"""All that was said at one height, by whom, and what it gives away.

Source: docs/decision-protocol.md, sections 3, 7 and 8.
"""

from p2pd.core.ids import DecisionId, PeerId, PublicKey
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import Step, Vote
from p2pd.core.voting.events import Objection
from p2pd.core.voting.evidence import Evidence, find_evidence
from p2pd.core.voting.exchange import Exchange
from p2pd.core.voting.members import Members
from p2pd.core.voting.proposals import Proposal
from p2pd.core.voting.quorums import VOTE
from p2pd.core.voting.shelf import Shelf
from p2pd.core.voting.tally import Tally
from p2pd.errors import RemoteError


class Box:
    """Serves for the next height too: holds what comes for it, until it is entered."""

    def __init__(self, members: Members, scope: Scope, *, counting: bool = True) -> None:
        self.tally = Tally(members, scope.height, counting=counting)
        self.shelf = Shelf(members, scope, self.tally)
        self.exchange = Exchange(members, self.tally, self.shelf)
        self._members = members
        self._scope = scope
        self._accused: set[PublicKey] = set()

    def belongs(self, vote: Signed[Vote]) -> bool:
        return vote.scope == self._scope and vote.kind == VOTE

    def add_vote(self, vote: Signed[Vote]) -> Evidence | None:
        """Keeps a vote that belongs here; evidence comes at most once per key."""
        evidence = None
        if vote.author in self._members.weights and vote.author not in self._accused:
            evidence = find_evidence(self.tally, vote)
            if evidence is not None:
                self._accused.add(vote.author)
        self.tally.add(vote)
        return evidence

    def add_proposal(self, proposal: Signed[Proposal]) -> Evidence | None:
        """Keeps a proposal and the quorum in it; whose votes are still to be looked at one by one.

        Raises:
            RemoteError: it is not well-formed.
        """
        other = self.shelf.add(proposal)
        if other is None or proposal.author in self._accused:
            return None
        self._accused.add(proposal.author)
        return Evidence((), (other, proposal))

    def add_own_proposal(self, proposal: Signed[Proposal]) -> None:
        try:
            self.shelf.add(proposal)
        except RemoteError:
            # With the counting rule switched off a quorum need not convince anyone, me included.
            return

    def messages(self) -> list[Signed[Vote] | Signed[Proposal]]:
        """All that is kept, by round."""
        rounds = sorted({*self.tally.rounds_between(-1, None), *self.shelf.rounds()})
        kept: list[Signed[Vote] | Signed[Proposal]] = []
        for round_ in rounds:
            held = self.shelf.get(round_)
            kept += [held.proposal] if held else []
            kept += self.tally.votes_in(round_)
        return kept

    def holders(self, value: DecisionId) -> tuple[PeerId, ...]:
        """Members that voted for a decision in any round: they serve it until the height ends."""
        keys = {
            key
            for round_ in self.tally.rounds_between(-1, None)
            for step in (Step.PREVOTE, Step.PRECOMMIT)
            for key in self.tally.voters(step, round_, value)
        }
        return tuple(member.peer for member in self._members.rows if member.key in keys)

    def objections(self) -> list[Objection]:
        """Prevotes for nil with reasons, by round, then by peer id."""
        return [
            Objection(member.peer, member.weight, round_, vote.content.reasons, vote)
            for round_ in sorted(self.tally.rounds_between(-1, None))
            for member in self._members.rows
            for vote in self.tally.votes_of(member.key, Step.PREVOTE, round_)
            if vote.content.reasons
        ]

    def silent(self, round_: int) -> tuple[PeerId, ...]:
        heard = self.tally.heard(round_)
        return tuple(member.peer for member in self._members.rows if member.key not in heard)
