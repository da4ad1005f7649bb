"""How a liar speaks: over the real machine, with its own key, it says what it likes to whom it likes."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.ids import PeerId, PublicKey
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import Step, Vote
from p2pd.core.voting.members import Members


@dataclass(frozen=True, slots=True)
class Told:
    signed: Signed[Any]
    to: frozenset[PeerId] | None = None
    """None: everybody, as an honest node would."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a liar sees when it may speak."""

    me: PublicKey
    previous: Decision
    scope: Scope
    """Of the open height."""
    members: Members
    others: frozenset[PeerId]
    """Other validators that are linked."""
    judges: frozenset[PeerId]
    """All that are linked and take part in windows."""
    held: tuple[Signed[Any], ...]
    """What was heard of the open height."""
    past: Collection[Signed[Any]]
    """What was heard before, and is remembered."""

    def votes(self, step: Step, round_: int) -> dict[PeerId, Vote]:
        """Of the others, the first of each."""
        found: dict[PeerId, Vote] = {}
        for one in self.held:
            vote = one.content
            if isinstance(vote, Vote) and (vote.step, vote.round) == (step, round_):
                found.setdefault(one.signer, vote)
        return found

    def weight(self, peers: Iterable[PeerId]) -> int:
        chosen = frozenset(peers)
        return sum(member.weight for member in self.members.rows if member.peer in chosen)

    def proposes(self, round_: int) -> bool:
        return self.members.proposer(self.scope.height, round_).key == self.me


def nothing(signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    return ()


def as_it_is(signed: Signed[Any], scene: Scene) -> Iterable[Told]:
    return (Told(signed),)


def nothing_at_first(scene: Scene) -> Iterable[Told]:
    return ()


@dataclass(frozen=True, slots=True)
class Tongue:
    tell: Callable[[Signed[Any], Scene], Iterable[Told]] = as_it_is
    """What becomes of what the liar's machine wants to say."""
    hear: Callable[[Signed[Any], Scene], Iterable[Told]] = nothing
    """What the liar says upon what it hears."""
    enter: Callable[[Scene], Iterable[Told]] = nothing_at_first
    """What the liar says at the beginning of a height."""
