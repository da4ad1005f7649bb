"""What must hold, looked at after every step of a simulated fleet. Names are those of the design's invariants."""

from dataclasses import dataclass, field
from typing import Any

from p2pd.core.decision import Decision, Outcome
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.ids import DecisionId, PublicKey
from p2pd.core.messages import Choices
from p2pd.core.signed import Signed
from p2pd.core.votes import Step, Vote
from p2pd.core.work import Verdict


@dataclass(frozen=True, slots=True)
class Violation:
    seed: int
    invariant: str
    height: int
    what: str


@dataclass(slots=True)
class Checkers:
    seed: int
    setting: Setting
    decided: dict[int, DecisionId] = field(default_factory=dict)
    chain: dict[int, Decision] = field(default_factory=dict)
    votes: dict[tuple[PublicKey, int, Step, int], Vote] = field(default_factory=dict)
    counted: dict[tuple[int, int], int] = field(default_factory=dict)
    """(epoch, microshard) -> height at which it was counted."""
    violations: list[Violation] = field(default_factory=list)

    def fail(self, invariant: str, height: int, what: str) -> None:
        self.violations.append(Violation(self.seed, invariant, height, what))

    def on_vote(self, signed: Signed[Any]) -> None:
        """Called with each vote that leaves an honest node, before anyone else sees it."""
        vote: Vote = signed.content
        key = (signed.author, signed.scope.height, vote.step, vote.round)
        before = self.votes.setdefault(key, vote)
        if before != vote:
            self.fail(
                "I10",
                signed.scope.height,
                f"{vote.step.name.lower()} of round {vote.round} contradicts one sent before",
            )

    def on_adopted(self, name: str, decision: Decision) -> None:
        """Called with each decision that a node has made durable."""
        height = decision.height
        first = self.decided.setdefault(height, decision.id)
        if first != decision.id:
            self.fail("I1", height, f"{name} adopted another decision than the first to adopt")
            return
        if height in self.chain or height == 0:
            return
        self.chain[height] = decision
        self._check_work(decision)

    def _check_work(self, decision: Decision) -> None:
        """I7: claimed samples fit the lease, and no microshard is counted twice in an epoch."""
        previous = self.chain.get(decision.height - 1)
        if previous is None or decision.header.outcome is not Outcome.PROMOTED:
            return
        plan, epoch = previous.state.plan, previous.state.progress.epoch
        for candidate in decode(Choices, decision.choices).cohort:
            if candidate.verdict is not Verdict.ACCEPTED:
                continue
            lease = plan.lease_of(candidate.update.signer)
            if lease is None or candidate.update.content.samples > lease.samples:
                self.fail("I7", decision.height, "an accepted update claims more than its lease")
                continue
            for shard in lease.shards:
                if (epoch, shard) in self.counted:
                    self.fail("I7", decision.height, f"microshard {shard} is counted twice")
                self.counted[epoch, shard] = decision.height

    def on_end(self, tips: dict[str, Decision], *, finished: bool) -> None:
        """Liveness, and one lineage, a while after the last fault."""
        highest = max(tips.values(), key=lambda tip: tip.height)
        if not finished:
            self.fail("liveness", highest.height, f"no end: {_heights(tips)}")
        for name, tip in sorted(tips.items()):
            if self.decided.get(tip.height) != tip.id:
                self.fail("I2", tip.height, f"{name} ended on a lineage of its own")


def _heights(tips: dict[str, Decision]) -> str:
    return ", ".join(f"{name} at {tip.height}" for name, tip in sorted(tips.items()))
