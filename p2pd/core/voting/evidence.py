"""Two signed messages that no honest validator signs both.

Source: docs/decision-protocol.md, section 8.
"""

from dataclasses import dataclass
from typing import Any

from p2pd.core.ids import PeerId
from p2pd.core.signed import Signed
from p2pd.core.votes import Step, Vote
from p2pd.core.voting.members import Members
from p2pd.core.voting.proposals import PROPOSAL, Proposal
from p2pd.core.voting.quorums import VOTE
from p2pd.core.voting.tally import Tally


@dataclass(frozen=True, slots=True)
class Evidence:
    """Either two votes or two proposals, by one key, in one place."""

    votes: tuple[Signed[Vote], ...]
    """None or two; of a broken lock, the precommit first."""
    proposals: tuple[Signed[Proposal], ...]
    """None or two."""

    def __post_init__(self) -> None:
        if sorted((len(self.votes), len(self.proposals))) != [0, 2]:
            raise ValueError("evidence is two votes or two proposals")


def check_evidence(members: Members, evidence: Evidence) -> PeerId | None:
    """The member that broke the rules; None if this does not show it."""
    pair: tuple[Signed[Any], ...] = evidence.votes or evidence.proposals
    kind = VOTE if evidence.votes else PROPOSAL
    first, second = pair
    if first.author != second.author or first.author not in members.weights:
        return None
    if first.scope != second.scope or (first.kind, second.kind) != (kind, kind):
        return None
    if evidence.votes:
        guilty = says_twice(*evidence.votes) or breaks_lock(*evidence.votes)
    else:
        guilty = first.content.round == second.content.round and first.content != second.content
    return first.signer if guilty else None


def says_twice(first: Signed[Vote], second: Signed[Vote]) -> bool:
    """Two different bodies of one type and round, reasons and just included."""
    one, other = first.content, second.content
    return one.step == other.step and one.round == other.round and one != other


def breaks_lock(precommit: Signed[Vote], prevote: Signed[Vote]) -> bool:
    """A later prevote for another decision, with no quorum since the precommit to justify it."""
    lock, vote = precommit.content, prevote.content
    return (
        (lock.step, vote.step) == (Step.PRECOMMIT, Step.PREVOTE)
        and lock.value is not None
        and vote.value is not None
        and lock.value != vote.value
        and vote.round > lock.round > vote.just
    )


def find_evidence(tally: Tally, vote: Signed[Vote]) -> Evidence | None:
    """What vote shows together with the votes held of the same key."""
    content = vote.content
    for held in tally.votes_of(vote.author, content.step, content.round):
        if says_twice(held, vote):
            return Evidence((held, vote), ())
    if content.value is None:
        return None
    if content.step == Step.PREVOTE:
        earlier = tally.rounds_between(content.just, content.round)
        locks = (tally.votes_of(vote.author, Step.PRECOMMIT, round_) for round_ in earlier)
        pairs = [(lock, vote) for held in locks for lock in held]
    else:
        later = tally.rounds_between(content.round, None)
        moves = (tally.votes_of(vote.author, Step.PREVOTE, round_) for round_ in later)
        pairs = [(vote, move) for held in moves for move in held]
    return next((Evidence(pair, ()) for pair in pairs if breaks_lock(*pair)), None)
