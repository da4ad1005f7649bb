"""What decisions take of the governance log: only what the authority signed, in order, and what honest validators hold.

Ends in force are counted here anew, from the records themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from p2pd.core.decision import Decision, Outcome
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.governance import RecordId, SignedGovernance
from p2pd.core.ids import PeerId, peer_id
from p2pd.core.messages import Choices
from p2pd.wire.signatures import verify

Fail = Callable[[str, int, str], None]


@dataclass(slots=True)
class Charter:
    fail: Fail
    setting: Setting
    names: dict[PeerId, str]
    """Of honest nodes."""
    held: dict[RecordId, dict[PeerId, int]] = field(default_factory=dict)
    """Which honest validators hold a record, and at which height each heard of it."""
    numbers: dict[RecordId, int] = field(default_factory=dict)
    taken: int = 0
    """Number of the last record that a decision took."""
    waited: dict[RecordId, int] = field(default_factory=dict)
    """Decisions since all honest validators hold it, those aside that can take none."""

    def on_held(self, peer: PeerId, signed: SignedGovernance, height: int) -> None:
        """Called when a validator is told of a record that its node has stored."""
        self.numbers[signed.record.id] = signed.record.number
        self.held.setdefault(signed.record.id, {}).setdefault(peer, height)

    def on_decision(self, previous: Decision, decision: Decision) -> None:
        """Called once with each decision of the lineage."""
        height, choices = decision.height, decode(Choices, decision.choices)
        for signed in choices.governance:
            self._check(signed, height)
        if choices.governance:
            self.taken = max(self.taken, choices.governance[-1].record.number)
        before, after = previous.state.governed.ends, decision.state.governed.ends
        heads = before.heads
        for signed in choices.governance:
            action = signed.record.action
            if action.revision == self.setting.revision.id and action.end_heads is not None:
                heads = max(heads, action.end_heads)
        if (heads, before.epochs) != (after.heads, after.epochs):
            self.fail("governance", height, f"it ends after {after.heads} heads, not {heads}")
        if decision.header.outcome is not Outcome.UNDECIDED:
            self._check_waiting(height)

    def _check(self, signed: SignedGovernance, height: int) -> None:
        genesis, record = self.setting.genesis, signed.record
        signers = {
            one.key
            for one in signed.endorsements
            if one.key in genesis.authority and verify(one.key, record.id, one.signature)
        }
        if len(signers) < genesis.threshold:
            self.fail("I3", height, f"governance record {record.number} is not the authority's")
        if record.number != self.taken + 1:
            what = f"governance record {record.number} was taken after {self.taken}"
            self.fail("governance", height, what)
        self.taken = record.number

    def _check_waiting(self, height: int) -> None:
        """An honest proposer comes by: what all honest validators hold does not wait for longer."""
        seats = {peer_id(seat.key) for seat in self.setting.genesis.validators}
        honest = seats & self.names.keys()
        most = 2 * len(seats) + 2
        for record, holders in self.held.items():
            if self.numbers[record] != self.taken + 1 or not honest <= holders.keys():
                continue
            if height <= max(holders[peer] for peer in honest):
                continue
            self.waited[record] = self.waited.get(record, 0) + 1
            if self.waited[record] == most:
                what = f"governance record {self.numbers[record]} has waited for {most} decisions"
                self.fail("governance", height, what)
