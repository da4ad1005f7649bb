"""What a proposer says, and whether it is well-formed.

Source: docs/decision-protocol.md, sections 3 and 4.
"""

from dataclasses import dataclass

from p2pd.core.ids import DecisionId
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import MAX_ROUND, NO_ROUND, Vote
from p2pd.core.voting.members import Members
from p2pd.core.voting.quorums import one_prevote_each, quorate_rounds
from p2pd.errors import RemoteError

PROPOSAL = "proposal"
"""The kind under which a proposal is signed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    round: int
    pol: int
    """An earlier round whose quorum of prevotes speaks for the same decision; else NO_ROUND."""
    choices: bytes
    """Encoded; every validator derives the decision and its id from them."""
    quorum: tuple[Signed[Vote], ...]
    """The prevotes of round pol and their closure; empty for a fresh proposal."""

    def __post_init__(self) -> None:
        if not 0 <= self.round <= MAX_ROUND:
            raise ValueError(f"a round is from 0 to {MAX_ROUND}")
        if not NO_ROUND <= self.pol < self.round:
            raise ValueError("pol must name an earlier round")
        if (self.pol == NO_ROUND) != (not self.quorum):
            raise ValueError("a quorum is carried exactly if pol names its round")


def backed_value(members: Members, scope: Scope, proposal: Signed[Proposal]) -> DecisionId | None:
    """The decision that the carried quorum is for; None for a fresh proposal.

    Raises:
        RemoteError: the proposal is not well-formed, or not of this place and its proposer.
    """
    content = proposal.content
    if proposal.scope != scope or proposal.kind != PROPOSAL:
        raise RemoteError("proposal belongs elsewhere")
    if members.proposer(scope.height, content.round).key != proposal.author:
        raise RemoteError(f"proposal of round {content.round} is not by its proposer")
    if content.pol == NO_ROUND:
        return None
    value = content.quorum[0].content.value
    if value is None:
        raise RemoteError("proposal carries prevotes for nil")
    one_prevote_each(members, scope, value, content.quorum)
    if content.pol not in quorate_rounds(members, content.quorum):
        raise RemoteError(f"proposal lacks the quorum of round {content.pol}")
    return value
