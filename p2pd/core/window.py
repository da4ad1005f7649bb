"""What one validator holds of the window that is being decided, since when, and when it is over. Times are seconds."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from p2pd.core.checking import most_present
from p2pd.core.decision import Decision, PlanState
from p2pd.core.derive import Setting
from p2pd.core.governance import RECORDS_PER_DECISION, LogPlace, SignedGovernance
from p2pd.core.ids import DecisionId, PeerId, UpdateId
from p2pd.core.leases import find_lease
from p2pd.core.messages import (
    Beacon,
    Candidate,
    Choices,
    Leave,
    Release,
    Service,
    Update,
    accusation,
)
from p2pd.core.signed import Signed
from p2pd.core.standing import may_serve
from p2pd.core.votes import Reason, ReasonKind
from p2pd.core.voting.evidence import Evidence
from p2pd.core.work import FULL, Verdict

SOFT_CLOSE_PERCENT = 80
LEAVE_HEARD_S = 0.5
"""For so long a leave must be held before anybody acts on it, so that all have heard it by then. Who tells it to one
validator alone gains a round at most: that validator acts half a second later, when its own relaying, which takes a
tenth, has told the others, who then close as it does and miss nobody; where the network loses that, a proposal
without a beacon that others hold is refused, and the next proposer's is not."""
GRACE_FLOOR_S = 5.0
EVIDENCE_PER_DECISION = 4


class Fetch(Enum):
    WANTED = "wanted"
    HERE = "here"
    FAILED = "failed"


@dataclass(slots=True)
class Entry:
    """One update, from its announcement to its verdict."""

    update: Signed[Update]
    verdict: Verdict | None
    """None until its tensors were looked at."""
    fetch: Fetch = Fetch.WANTED
    accepted_s: float | None = None
    """Since when it was held and found good."""
    detail: str = ""


@dataclass(slots=True)
class Window:
    setting: Setting
    previous: Decision
    opened_s: float
    entries: dict[UpdateId, Entry] = field(default_factory=dict)
    beacons: dict[PeerId, Signed[Beacon]] = field(default_factory=dict)
    beacons_s: dict[PeerId, float] = field(default_factory=dict)
    releases: dict[PeerId, Signed[Release]] = field(default_factory=dict)
    leaves: dict[PeerId, Signed[Leave]] = field(default_factory=dict)
    """Of this height, or of the one before by those who have not shown themselves since."""
    leaves_s: dict[PeerId, float] = field(default_factory=dict)
    evidence: dict[PeerId, Evidence] = field(default_factory=dict)
    evidence_s: dict[PeerId, float] = field(default_factory=dict)
    """Since when it is held at this height."""
    records: dict[int, tuple[SignedGovernance, float]] = field(default_factory=dict)
    """Governance records by number, with since when they are held at this height."""
    target_s: float | None = None
    """Since when this validator knows that the head reaches the target: the window is over."""
    woken_s: float | None = None
    """Since when an idle height has held a wake."""
    mostly_delivered_s: float | None = None
    """When 80 % of the samples had been delivered."""

    @classmethod
    def after(
        cls, last: "Window | None", setting: Setting, previous: Decision, now_s: float
    ) -> Self:
        """A new window, with what of the last one may still be decided."""
        window = cls(setting, previous, now_s)
        for update, entry in last.entries.items() if last else ():
            if find_lease(entry.update, previous) is not None:
                window.entries[update] = entry
        for leave in last.leaves.values() if last else ():
            window.add_leave(leave, now_s)
        return window

    @property
    def height(self) -> int:
        return self.previous.height + 1

    @property
    def state(self) -> PlanState:
        return self.previous.state.plan.state

    def hear(self, signed: Signed[Any], now_s: float) -> None:
        """Takes what peers say of themselves: that they are here, give a lease back, or leave."""
        content, here = signed.content, signed.scope.height == self.height
        if isinstance(content, Beacon) and here:
            self.add_beacon(signed, now_s)
        elif isinstance(content, Release) and here:
            self.releases.setdefault(signed.signer, signed)
        elif isinstance(content, Leave):
            self.add_leave(signed, now_s)

    def add_beacon(self, beacon: Signed[Beacon], now_s: float) -> None:
        peer = beacon.signer
        if peer in self.beacons or not may_serve(self.previous.state, peer, self.height):
            return
        self.beacons[peer] = beacon
        self.beacons_s[peer] = now_s
        if peer in self.leaves and self.leaves[peer].scope.height < self.height:
            del self.leaves[peer], self.leaves_s[peer]  # it has come back
        if beacon.content.service is Service.TRAIN and self.woken_s is None:
            self.woken_s = now_s

    def add_leave(self, leave: Signed[Leave], now_s: float) -> None:
        """One of the height before counts where its author was dealt a lease all the same, and has not come back."""
        peer, height = leave.signer, leave.scope.height
        if height == self.height - 1:
            leased = self.previous.state.plan.lease_of(peer) is not None
            wanted = leased and peer not in self.beacons and peer not in self.leaves
        else:
            held = self.leaves.get(peer)
            wanted = height == self.height and (held is None or held.scope.height < height)
        if wanted:
            self.leaves[peer], self.leaves_s[peer] = leave, now_s

    def _left_s(self, peer: PeerId) -> float | None:
        """From when on its leave counts."""
        heard_s = self.leaves_s.get(peer)
        return None if heard_s is None else heard_s + LEAVE_HEARD_S

    def add_evidence(self, evidence: Evidence, now_s: float) -> bool:
        """False for what is known, or was acted on."""
        liar = accusation(evidence).signer
        state = self.previous.state
        if liar in state.suspended or liar in state.pending or liar in self.evidence:
            return False
        self.evidence[liar], self.evidence_s[liar] = evidence, now_s
        if self.woken_s is None:
            self.woken_s = now_s
        return True

    def add_record(self, signed: SignedGovernance, now_s: float) -> None:
        """What the chain has taken is known; of two of one number the last is held, as by the node's log."""
        number, held = signed.record.number, self.records.get(signed.record.number)
        news = held is None or held[0].record.id != signed.record.id
        if news and number > self.previous.state.governed.log.number:
            self.records[number] = signed, now_s

    def records_after(self, place: LogPlace) -> tuple[tuple[SignedGovernance, float], ...]:
        """Those that come next in the log, as many as a decision takes."""
        found: list[tuple[SignedGovernance, float]] = []
        while len(found) < RECORDS_PER_DECISION:
            held = self.records.get(place.number + 1)
            if held is None or not place.takes(held[0].record):
                break
            found.append(held)
            place = held[0].place
        return tuple(found)

    def governance(self) -> tuple[SignedGovernance, ...]:
        """As this validator would propose it."""
        return tuple(one for one, _ in self.records_after(self.previous.state.governed.log))

    def _wakes_s(self) -> float | None:
        """Since when something is held for which a height without a window is decided."""
        held = self.records_after(self.previous.state.governed.log)
        wakes_s = [since_s for _, since_s in held[:1]]
        if self.state is PlanState.IDLE and self.woken_s is not None:
            wakes_s.append(self.woken_s)
        return min(wakes_s, default=None)

    def entries_of(self, update: Signed[Update]) -> list[Entry]:
        """Those for the same lease."""
        mine = _lease_of(update)
        return [entry for entry in self.entries.values() if _lease_of(entry.update) == mine]

    def entry_of(self, peer: PeerId) -> Entry | None:
        """For the lease of this window."""
        mine = (peer, self.previous.id)
        return next((e for e in self.entries.values() if _lease_of(e.update) == mine), None)

    def note_verdict(self, entry: Entry, verdict: Verdict, detail: str, now_s: float) -> None:
        entry.verdict, entry.detail = verdict, detail
        if verdict is Verdict.ACCEPTED:
            entry.accepted_s = now_s
        self._note_delivery(now_s)

    def _note_delivery(self, now_s: float) -> None:
        if self.mostly_delivered_s is not None:
            return
        roster = self.previous.state.plan.roster
        total = sum(lease.samples for lease in roster)
        done = sum(lease.samples for lease in roster if self._delivered(lease.peer))
        if total and done * 100 >= total * SOFT_CLOSE_PERCENT:
            self.mostly_delivered_s = now_s

    def _delivered(self, peer: PeerId) -> bool:
        entry = self.entry_of(peer)
        return entry is not None and (entry.verdict is not None or entry.fetch is Fetch.FAILED)

    def _settled_s(self, peer: PeerId) -> float | None:
        """From when on nobody waits for a lease; None while there is more to wait for."""
        # An update that came counts, whatever else its author says.
        if self.entry_of(peer) is not None:
            return self.opened_s if self._delivered(peer) else None
        return self.opened_s if peer in self.releases else self._left_s(peer)

    def closes_s(self) -> float | None:
        """When this window is over by what is held now; None while only messages can end it."""
        schedule = self.setting.revision.schedule
        if self.state is not PlanState.RUNNING:
            wakes_s = self._wakes_s()
            return None if wakes_s is None else wakes_s + schedule.settle_ms / 1000
        due_s = [self.opened_s + schedule.deadline_ms / 1000]
        if self.target_s is not None:
            due_s.append(self.target_s)
        if self.mostly_delivered_s is not None:
            due_s.append(self.opened_s + 1.5 * (self.mostly_delivered_s - self.opened_s))
        leases_s = [self._settled_s(lease.peer) for lease in self.previous.state.plan.roster]
        settled_s = [at_s for at_s in leases_s if at_s is not None]
        if len(settled_s) == len(leases_s):
            due_s.append(max(settled_s))
        return min(due_s)

    def candidates(self, disputed: frozenset[bytes]) -> tuple[Candidate, ...]:
        """The cohort as this validator would propose it: one update per lease, ascending by update id."""
        best: dict[Place, Candidate] = {}
        for update, entry in sorted(self.entries.items()):
            verdict = Verdict.DISPUTED if update in disputed else entry.verdict
            if verdict is None:
                continue
            place = _lease_of(entry.update)
            chosen = best.get(place)
            if chosen is None or chosen.verdict is not Verdict.ACCEPTED:
                best[place] = Candidate(entry.update, verdict, FULL)
        return tuple(sorted(best.values(), key=lambda candidate: candidate.update.id))

    def presence(self, now_s: float) -> tuple[Signed[Beacon], ...]:
        """As this validator would propose it: without those that have left."""
        here = [peer for peer in sorted(self.beacons) if not self._has_left(peer, now_s)]
        return tuple(self.beacons[peer] for peer in here)

    def _has_left(self, peer: PeerId, now_s: float) -> bool:
        left_s = self._left_s(peer)
        return left_s is not None and now_s >= left_s

    def evidence_held(self) -> tuple[Evidence, ...]:
        """Evidence for the next decision; that of heights to come waits."""
        fit = [
            peer
            for peer in sorted(self.evidence)
            if accusation(self.evidence[peer]).scope.height <= self.height
        ]
        return tuple(self.evidence[peer] for peer in fit[:EVIDENCE_PER_DECISION])

    def left_out(self, choices: Choices, closed_s: float) -> tuple[Reason, ...]:
        """What a proposal omits although it was held here long before the window closed."""
        limit_s = closed_s - self._grace_s()
        # One update per lease: where a trainer sent two, the proposer may choose.
        served = {_lease_of(candidate.update) for candidate in choices.cohort}
        full = len(choices.presence) >= most_present(self.setting.revision.schedule)
        present = {beacon.signer for beacon in choices.presence}
        omitted = [
            Reason(ReasonKind.OMITTED, update, 0)
            for update, entry in sorted(self.entries.items())
            if entry.accepted_s is not None
            and entry.accepted_s <= limit_s
            and _lease_of(entry.update) not in served
        ]
        absent = [
            Reason(ReasonKind.ABSENT, peer, 0)
            for peer in sorted(self.beacons)
            if self.beacons_s[peer] <= limit_s
            and peer not in present
            and peer not in self.leaves  # also before it counts: whoever proposed heard it first
            and not full
        ]
        accused = {accusation(evidence).signer for evidence in choices.evidence}
        ignored = [
            Reason(ReasonKind.IGNORED, accusation(evidence).signer, 0)
            for evidence in self.evidence_held()
            if self.evidence_s[accusation(evidence).signer] <= limit_s
            and accusation(evidence).signer not in accused
            and len(accused) < EVIDENCE_PER_DECISION
        ]
        return (*omitted, *absent, *ignored, *self._withheld(choices, limit_s))

    def _withheld(self, choices: Choices, limit_s: float) -> tuple[Reason, ...]:
        """Where two records of one number are signed, either may be taken."""
        if len(choices.governance) == RECORDS_PER_DECISION:
            return ()
        taken = [signed.place for signed in choices.governance]
        rest = self.records_after(taken[-1] if taken else self.previous.state.governed.log)
        return tuple(
            Reason(ReasonKind.IGNORED, signed.record.id, 0)
            for signed, since_s in rest[:1]
            if since_s <= limit_s
        )

    def _grace_s(self) -> float:
        return max(GRACE_FLOOR_S, self.setting.revision.schedule.deadline_ms / 10_000)


Place = tuple[PeerId, DecisionId]
"""A trainer, and the decision that dealt the lease."""


def _lease_of(update: Signed[Update]) -> Place:
    return update.signer, update.content.plan
