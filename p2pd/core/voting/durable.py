"""What a validator remembers of a height over a crash.

Source: docs/decision-protocol.md, section 6.
"""

from dataclasses import dataclass
from typing import TypeVar

from p2pd.core.encoding import decode, encode
from p2pd.core.ids import DecisionId
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import Step, Vote
from p2pd.core.voting.proposals import PROPOSAL, Proposal
from p2pd.errors import LocalError, RemoteError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backed:
    """A decision that a quorum of prevotes speaks for."""

    value: DecisionId
    round: int
    choices: bytes
    quorum: tuple[Signed[Vote], ...]
    """The prevotes of the round and their closure."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a validator stands in a height."""

    round: int = 0
    step: Step = Step.IDLE
    closed: bool = False
    muted: bool = False
    """My key voted without me here, so I do not."""


@dataclass(frozen=True, slots=True)
class _State:
    scope: Scope
    position: Position
    locked: bytes | None
    valid: bytes | None
    votes: tuple[bytes, ...]
    """My own, at most one per step and round."""
    proposals: tuple[bytes, ...]


class Memory:
    """My own messages of one height and the decisions I am bound to, each encoded once."""

    def __init__(self, scope: Scope) -> None:
        self.position = Position()
        self.locked: Backed | None = None
        self.valid: Backed | None = None
        self._scope = scope
        self._votes: dict[tuple[Step, int], tuple[Signed[Vote], bytes]] = {}
        self._proposals: dict[int, tuple[Signed[Proposal], bytes]] = {}
        self._encoded: tuple[Backed, bytes] | None = None

    @classmethod
    def load(cls, scope: Scope, state: bytes) -> "Memory":
        """Raises LocalError if the state is damaged, or of another height or place."""
        try:
            return cls._load(scope, state)
        except RemoteError as error:
            raise LocalError(f"stored voting state is damaged: {error}") from error

    @classmethod
    def _load(cls, scope: Scope, state: bytes) -> "Memory":
        stored = decode(_State, state, limit_bytes=len(state))
        if stored.scope != scope:
            raise LocalError(f"stored voting state is of height {stored.scope.height}, not of this")
        memory = cls(scope)
        memory.position = stored.position
        memory.locked = _optional(Backed, stored.locked)
        memory.valid = _optional(Backed, stored.valid)
        for data in stored.votes:
            vote = decode(Signed[Vote], data, limit_bytes=len(data))
            memory._votes[vote.content.step, vote.content.round] = (vote, data)
        for data in stored.proposals:
            proposal = decode(Signed[Proposal], data, limit_bytes=len(data))
            memory._proposals[proposal.content.round] = (proposal, data)
        return memory

    def encode(self) -> bytes:
        locked = self._encode_backed(self.locked)
        valid = locked if self.valid == self.locked else self._encode_backed(self.valid)
        votes = tuple(data for _, data in self._votes.values())
        proposals = tuple(data for _, data in self._proposals.values())
        return encode(_State(self._scope, self.position, locked, valid, votes, proposals))

    def _encode_backed(self, backed: Backed | None) -> bytes | None:
        if backed is None:
            return None
        if self._encoded is None or self._encoded[0] is not backed:
            self._encoded = (backed, encode(backed))
        return self._encoded[1]

    def vote(self, step: Step, round_: int) -> Signed[Vote] | None:
        entry = self._votes.get((step, round_))
        return entry[0] if entry else None

    def proposal(self, round_: int) -> Signed[Proposal] | None:
        entry = self._proposals.get(round_)
        return entry[0] if entry else None

    def votes(self) -> list[Signed[Vote]]:
        return [vote for vote, _ in self._votes.values()]

    def proposals(self) -> list[Signed[Proposal]]:
        return [proposal for proposal, _ in self._proposals.values()]

    def add_vote(self, vote: Signed[Vote]) -> None:
        place = (vote.content.step, vote.content.round)
        if place in self._votes:
            raise LocalError(
                f"a second {place[0].name.lower()} of round {place[1]} was about to be sent"
            )
        self._votes[place] = (vote, vote.encoded)

    def add_proposal(self, proposal: Signed[Proposal]) -> None:
        if proposal.content.round in self._proposals:
            raise LocalError(
                f"a second {PROPOSAL} of round {proposal.content.round} was about to be sent"
            )
        self._proposals[proposal.content.round] = (proposal, proposal.encoded)

    def of_round(self, round_: int) -> list[Signed[Vote] | Signed[Proposal]]:
        """What I said in a round, in that order."""
        said = [
            self.proposal(round_),
            self.vote(Step.PREVOTE, round_),
            self.vote(Step.PRECOMMIT, round_),
        ]
        return [message for message in said if message is not None]


def _optional(kind: type[T], data: bytes | None) -> T | None:
    return None if data is None else decode(kind, data, limit_bytes=len(data))
