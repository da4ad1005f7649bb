"""Suspension and quarantine (I11): the same everywhere, over restarts too, in force as long as they say, and earned.

Misdeeds are counted here anew, from the verdicts and the merges that decisions carry.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from p2pd.core.decision import Decision
from p2pd.core.encoding import decode
from p2pd.core.ids import PeerId
from p2pd.core.messages import Choices, Report
from p2pd.core.signed import Signed
from p2pd.core.votes import Vote
from p2pd.core.voting.evidence import Evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.core.wording import counted
from p2pd.core.work import Verdict

Fail = Callable[[str, int, str], None]

UNMISTAKABLE = frozenset({Verdict.LAYOUT, Verdict.SCHEMA, Verdict.NONFINITE, Verdict.LEASE})
IN_A_ROW = 3
"""Misdeeds with nothing good between them, after which a peer must be in quarantine."""


@dataclass(slots=True)
class Sanctions:
    fail: Fail
    names: dict[PeerId, str]
    """Of honest nodes."""
    misdeeds: Counter[PeerId] = field(default_factory=Counter)
    """Since a peer's last good deed."""

    def on_held(self, name: str, signed: Signed[Any], previous: Decision | None) -> None:
        """Called with each object that an honest validator holds of the height after previous."""
        if previous is None or not isinstance(signed.content, Vote | Proposal | Report | Evidence):
            return
        if signed.signer in previous.state.suspended:
            what = f"{name} takes a {signed.kind} of a suspended validator"
            self.fail("I11", signed.scope.height, what)

    def on_agreed(self, name: str, mine: Decision, first: Decision) -> None:
        """Called with each decision that a node adopts or starts from, and with the first to adopt's."""
        if mine is not first and _in_force(mine) != _in_force(first):
            what = f"{name} has another record of who is suspended or in quarantine"
            self.fail("I11", mine.height, what)

    def on_decision(self, previous: Decision, decision: Decision) -> None:
        """Called once with each decision of the lineage."""
        before, after, height = previous.state, decision.state, decision.height
        for was, now in ((before.suspended, after.suspended), (before.pending, after.pending)):
            if now[: len(was)] != was:
                self.fail("I11", height, "a validator that was named is so no longer")
        until = {row.peer: row.quarantined_until for row in after.standing}
        for row in before.standing:
            if row.quarantined_until > height and until.get(row.peer, 0) < row.quarantined_until:
                self.fail("I11", height, f"{self._name(row.peer)} left its quarantine too early")
        out = {peer for peer, end in until.items() if end > height + 1} | {*after.suspended}
        for peer in (*(lease.peer for lease in after.plan.roster), *after.plan.reducers):
            if peer in out:
                self.fail("I11", height, f"{self._name(peer)} is to serve, which it must not")
        self._check_earned(previous, decision, until)

    def _check_earned(
        self, previous: Decision, decision: Decision, until: dict[PeerId, int]
    ) -> None:
        height = decision.height
        old = {row.peer: row.quarantined_until for row in previous.state.standing}
        bad = Counter[PeerId]()
        for peer, good in _deeds(previous, decision):
            if good and old.get(peer, 0) > height:
                self.fail("I11", height, f"work of {self._name(peer)}, in quarantine, counts")
            self.misdeeds[peer] = 0 if good else self.misdeeds[peer] + 1
            bad[peer] += not good
        for peer, end in until.items():
            if end > old.get(peer, 0) and (peer in self.names or not bad[peer]):
                self.fail("I11", height, f"{self._name(peer)} is in quarantine for nothing")
        for peer, count in bad.items():
            if count and self.misdeeds[peer] >= IN_A_ROW and until.get(peer, 0) <= height:
                times = counted(self.misdeeds[peer], "misdeed")
                what = f"{self._name(peer)} is not in quarantine after {times}"
                self.fail("I11", height, what)

    def _name(self, peer: PeerId) -> str:
        return self.names.get(peer, "a stranger or liar")


def _in_force(decision: Decision) -> tuple[object, ...]:
    state = decision.state
    rows = tuple((row.peer, row.quarantined_until) for row in state.standing)
    return state.suspended, state.pending, rows


def _deeds(previous: Decision, decision: Decision) -> Iterator[tuple[PeerId, bool]]:
    """Who did well or badly, by what a decision judges."""
    if not decision.choices:
        return
    choices, merge = decode(Choices, decision.choices), previous.state.merge
    for candidate in choices.cohort:
        if candidate.verdict in UNMISTAKABLE:
            yield candidate.update.signer, False
        elif candidate.verdict is Verdict.ACCEPTED:
            yield candidate.update.signer, True
    for reduction in choices.reductions:
        content = reduction.content
        judged = merge is not None and content.inputs == merge.inputs
        if judged and content.merged != previous.merged:
            yield reduction.signer, False
