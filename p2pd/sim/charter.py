"""When runs end. What decisions take of the governance log: only what the authority signed, in order, and what honest
validators hold; and that a target is reached only where they measured it.

Ends in force are counted here anew, from the records themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from p2pd.core.decision import Decision, Outcome, PlanState
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.governance import RecordId, SignedGovernance
from p2pd.core.ids import ArtifactId, PeerId, peer_id
from p2pd.core.messages import Choices, Report
from p2pd.core.signed import Signed
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
    metrics: dict[ArtifactId, dict[PeerId, int]] = field(default_factory=dict)
    """What honest validators measured of heads, and reported."""
    refused: int = 0
    """Decisions in a row that go on from a head which all honest validators find beyond the target."""
    waited: dict[RecordId, int] = field(default_factory=dict)
    """Decisions since all honest validators hold it, those aside that can take none."""

    def on_held(self, peer: PeerId, signed: SignedGovernance, height: int) -> None:
        """Called when a validator is told of a record that its node has stored."""
        self.numbers[signed.record.id] = signed.record.number
        self.held.setdefault(signed.record.id, {}).setdefault(peer, height)

    def on_reported(self, report: Signed[Report]) -> None:
        """Called with each report of an honest validator."""
        measured = self.metrics.setdefault(report.content.head, {})
        measured[report.signer] = report.content.metric

    def is_at_target(self, previous: Decision) -> bool:
        """Whether some honest validator found that the head reaches it, and so waits for no more of the window."""
        target = previous.state.governed.ends.target
        found = self.metrics.get(previous.head, {}).values()
        return target is not None and any(metric >= target for metric in found)

    def _check_target(self, previous: Decision, decision: Decision) -> None:
        target, schedule = previous.state.governed.ends.target, self.setting.revision.schedule
        found = self.metrics.get(previous.head, {})
        height, finished = decision.height, decision.header.outcome is Outcome.FINISHED
        if target is None or previous.state.plan.state is not PlanState.RUNNING:
            return
        if finished and found and max(found.values()) <= target - schedule.target_band:
            self.fail("target", height, f"the run ends with a metric of {max(found.values())}")
        honest = {peer_id(seat.key) for seat in self.setting.genesis.validators} & self.names.keys()
        reached = honest <= found.keys() and min(found.values()) >= target + schedule.target_band
        undecided = decision.header.outcome is Outcome.UNDECIDED
        self.refused = self.refused + (not undecided) if reached and not finished else 0
        if self.refused > len(self.setting.genesis.validators):
            what = f"{self.refused} decisions go on from a head that reaches the target"
            self.fail("target", height, what)

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
        self._check_target(previous, decision)

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
