"""What belongs into a window, and when it may end. Seconds are virtual.

Looked at from outside, with the clock of the simulator and what honest validators heard.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.ids import ObjectId, PeerId
from p2pd.core.messages import Choices, Leave, Release, Update
from p2pd.core.signed import Signed
from p2pd.core.votes import Step, Vote
from p2pd.core.window import LEAVE_HEARD_S
from p2pd.sim.clock import SKEW_MOST
from p2pd.wire.signatures import verify

MOSTLY_PERCENT = 80

Fail = Callable[[str, int, str], None]


@dataclass(slots=True)
class Windows:
    fail: Fail
    setting: Setting
    names: dict[PeerId, str]
    """Of honest nodes."""
    now_s: Callable[[], float]
    entered: dict[int, Decision] = field(default_factory=dict)
    """By the height that is open after it."""
    opened_s: dict[int, dict[str, float]] = field(default_factory=dict)
    """When each honest validator entered a height first."""
    settled: dict[int, dict[PeerId, float]] = field(default_factory=dict)
    """When the first honest validator heard of a trainer's update or release, by height."""
    left: dict[int, dict[PeerId, float]] = field(default_factory=dict)
    """When the first honest validator heard that a peer leaves, by height."""
    counted: set[ObjectId] = field(default_factory=set)
    hasty: set[int] = field(default_factory=set)
    """Heights at which it was said already."""

    def on_entered(self, name: str, decision: Decision) -> None:
        height = decision.height + 1
        self.entered.setdefault(height, decision)
        if name.startswith("validator"):
            self.opened_s.setdefault(height, {}).setdefault(name, self.now_s())

    def on_heard(self, signed: Signed[Any]) -> None:
        if isinstance(signed.content, Update | Release):
            heard = self.settled.setdefault(signed.scope.height, {})
            heard.setdefault(signed.signer, self.now_s())
        elif isinstance(signed.content, Leave):
            left = self.left.setdefault(signed.scope.height, {})
            left.setdefault(signed.signer, self.now_s())

    def on_sent(self, signed: Signed[Any]) -> None:
        """Called with each vote of an honest validator: nobody is for a decision before any window is over."""
        vote, height = signed.content, signed.scope.height
        if not isinstance(vote, Vote) or vote.step is not Step.PREVOTE or vote.value is None:
            return
        if height not in self.hasty and not self._is_over(height):
            self.hasty.add(height)
            name = self.names.get(signed.signer, "somebody")
            self.fail("window", height, f"{name} voted while every window was open")

    def _is_over(self, height: int) -> bool:
        decision, opened_s = self.entered.get(height), self.opened_s.get(height, {})
        if decision is None or decision.state.plan.state is not PlanState.RUNNING:
            return True
        now_s, heard = self.now_s(), self.settled.get(height, {})
        first_s = min(opened_s.values(), default=now_s)
        roster = decision.state.plan.roster
        if all(lease.peer in heard or self._has_left(height, lease.peer) for lease in roster):
            return True
        deadline_s = self.setting.revision.schedule.deadline_ms / 1000
        if now_s >= first_s + deadline_s / (1.0 + SKEW_MOST):
            return True  # by the fastest clock
        total, samples = sum(lease.samples for lease in roster), 0
        for at_s, lease_samples in sorted(
            (heard[lease.peer], lease.samples) for lease in roster if lease.peer in heard
        ):
            samples += lease_samples
            if samples * 100 >= total * MOSTLY_PERCENT:
                last_s = max(opened_s.values(), default=now_s)
                return now_s >= last_s + 1.5 * max(0.0, at_s - last_s)
        return False

    def _has_left(self, height: int, peer: PeerId) -> bool:
        """By the fastest clock; at this height, or at the one before by one that has a lease all the same."""
        first_s = min(self.opened_s.get(height, {}).values(), default=self.now_s())
        left = [self.left.get(one, {}).get(peer) for one in (height - 1, height)]
        since_s = [max(first_s, at_s) for at_s in left if at_s is not None]
        counts_s = LEAVE_HEARD_S / (1.0 + SKEW_MOST)
        return bool(since_s) and self.now_s() >= min(since_s) + counts_s

    def on_decision(self, decision: Decision) -> None:
        """I3, I7: what a decision counts was signed for its window, by who it says, and counts once."""
        height = decision.height
        lookahead = self.setting.revision.schedule.lookahead
        for signed, due in _nested(decision):
            name = f"{signed.kind} of {self.names.get(signed.signer, 'a stranger or liar')}"
            if not verify(signed.author, signed.message, signed.signature):
                self.fail("I3", height, f"{name}: its author did not sign it")
            late = lookahead if signed.kind == "update" else 0  # it may come a window late
            if due is not None and signed.scope not in [
                self.setting.scope(one) for one in range(due - late, due + 1)
            ]:
                self.fail("I3", height, f"{name}: signed for height {signed.scope.height}")
            if signed.kind == "update" and signed.id in self.counted:
                self.fail("I7", height, f"{name}: counted before")
            if signed.kind == "update":
                self.counted.add(signed.id)


def _nested(decision: Decision) -> Iterator[tuple[Signed[Any], int | None]]:
    """All objects in a decision's choices, with the height that each must be of."""
    if not decision.choices:
        return
    choices, height = decode(Choices, decision.choices), decision.height
    for candidate in choices.cohort:
        yield candidate.update, height
    for beacon in choices.presence:
        yield beacon, height
    for ground in choices.grounds:
        yield ground, height
    for reduction in choices.reductions:
        yield reduction, height - 1
    for evidence in choices.evidence:
        for vote in evidence.votes:
            yield vote, None
        for proposal in evidence.proposals:
            yield proposal, None
