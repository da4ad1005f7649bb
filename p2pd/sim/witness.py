"""Remembers who signed what, and judges whom the network names: liars are, honest validators never (I1).

Contradictions are looked for here anew, not by the code under test.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.ids import PeerId
from p2pd.core.signed import Scope, Signed
from p2pd.core.votes import Step, Vote

Fail = Callable[[str, int, str], None]

NAMED_WITHIN = 8
"""Heights after which a liar must be named: each of four validators had its turn twice."""


@dataclass(slots=True)
class Witness:
    fail: Fail
    names: dict[PeerId, str]
    """Of honest nodes."""
    votes: dict[tuple[PeerId, Scope], list[Vote]] = field(default_factory=dict)
    """Of honest validators, for a decision."""
    heard: dict[tuple[str, PeerId, Scope, Step, int], Vote] = field(default_factory=dict)
    """The first vote of each place, by who heard it."""
    liars: dict[PeerId, int] = field(default_factory=dict)
    """The height at which an honest validator heard two votes of theirs for one place."""

    def on_sent(self, signed: Signed[Any]) -> None:
        """Called with each vote of an honest validator: none leaves a lock without a quorum since."""
        vote = signed.content
        if not isinstance(vote, Vote) or vote.value is None:
            return
        held = self.votes.setdefault((signed.signer, signed.scope), [])
        held.append(vote)
        for one, other in [(vote, each) for each in held] + [(each, vote) for each in held]:
            if (
                one.step is Step.PRECOMMIT
                and other.step is Step.PREVOTE
                and one.value != other.value
                and other.just < one.round < other.round
            ):
                name = self.names.get(signed.signer, signed.signer.hex()[:10])
                what = f"{name} left its lock of round {one.round} in round {other.round}"
                self.fail("I1", signed.scope.height, what)

    def on_heard(self, name: str, signed: Signed[Any]) -> None:
        """Called with what an honest validator holds of the open height."""
        vote = signed.content
        if isinstance(vote, Vote):
            place = (name, signed.signer, signed.scope, vote.step, vote.round)
            if self.heard.setdefault(place, vote) != vote:
                self.liars.setdefault(signed.signer, signed.scope.height)

    def on_decision(self, decision: Decision) -> None:
        """Called once with each decision of the lineage."""
        height = decision.height
        named = {*decision.state.suspended, *decision.state.pending}
        for peer in sorted(named):
            if peer in self.names:
                self.fail("I1", height, f"{self.names[peer]} is honest, and was named as a liar")
        for peer, since in self.liars.items():
            if peer not in named and height == since + NAMED_WITHIN:
                self.fail("I1", height, f"a liar caught at height {since} has not been named")
