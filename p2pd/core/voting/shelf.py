"""The proposals held of one height, one per round.

Source: docs/decision-protocol.md, sections 3 and 4.
"""

from dataclasses import dataclass

from p2pd.core.ids import DecisionId, PublicKey
from p2pd.core.signed import Scope, Signed
from p2pd.core.voting.members import Members
from p2pd.core.voting.proposals import Proposal, backed_value
from p2pd.core.voting.tally import AHEAD, FAR_ROUNDS, Tally


@dataclass(frozen=True, slots=True)
class Held:
    proposal: Signed[Proposal]
    backed: DecisionId | None
    """What the carried quorum is for; None for a fresh proposal."""


class Shelf:
    def __init__(self, members: Members, scope: Scope, tally: Tally) -> None:
        self._members = members
        self._scope = scope
        self._tally = tally
        self._held: dict[int, Held] = {}

    def get(self, round_: int) -> Held | None:
        return self._held.get(round_)

    def rounds(self) -> list[int]:
        return sorted(self._held)

    def add(self, proposal: Signed[Proposal]) -> Signed[Proposal] | None:
        """Keeps the first well-formed proposal of a round; returns it if this one contradicts it.

        Raises:
            RemoteError: it is not well-formed.
        """
        content = proposal.content
        held = self._held.get(content.round)
        if held is not None and held.proposal.signature == proposal.signature:
            return None
        backed = backed_value(self._members, self._scope, proposal)
        if held is not None:
            return None if held.proposal.content == content else held.proposal
        if not self._make_room(proposal.author, content.round):
            return None
        self._held[content.round] = Held(proposal, backed)
        self._tally.hear_proposal(proposal.author, content.round)
        self._tally.add_all(content.quorum)
        return None

    def _make_room(self, author: PublicKey, round_: int) -> bool:
        """Of rounds far ahead each key keeps its two highest."""
        far = sorted(
            other
            for other, held in self._held.items()
            if other > self._tally.current + AHEAD and held.proposal.author == author
        )
        if round_ <= self._tally.current + AHEAD or len(far) < FAR_ROUNDS:
            return True
        if round_ < far[0]:
            return False
        del self._held[far[0]]
        self._tally.forget_proposal(far[0])
        return True
