"""Remembers who signed what, and judges whom the network names: liars are, honest validators never (I1).

Contradictions are looked for here anew, not by the code under test.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.ids import PeerId
from p2pd.core.signed import Signed
from p2pd.core.votes import Step, Vote

Fail = Callable[[str, int, str], None]


@dataclass(slots=True)
class Witness:
    fail: Fail
    names: dict[PeerId, str]
    """Of honest nodes."""
    votes: dict[tuple[PeerId, int], list[Vote]] = field(default_factory=dict)
    """Of honest validators, for a decision, by height."""

    def on_sent(self, signed: Signed[Any]) -> None:
        """Called with each vote of an honest validator: none leaves a lock without a quorum since."""
        vote = signed.content
        if not isinstance(vote, Vote) or vote.value is None:
            return
        height = signed.scope.height
        held = self.votes.setdefault((signed.signer, height), [])
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
                self.fail("I1", height, what)

    def on_decision(self, decision: Decision) -> None:
        """Called once with each decision of the lineage."""
        for peer in (*decision.state.suspended, *decision.state.pending):
            if peer in self.names:
                what = f"{self.names[peer]} is honest, and was named as a liar"
                self.fail("I1", decision.height, what)
