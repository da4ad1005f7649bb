"""The signed objects of the open height: checked for place and author, bounded, and told apart by id.

An object of the next height waits until this one is adopted. Nothing here is forwarded or counted unchecked.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from p2pd.core.checking import most_present
from p2pd.core.decision import Decision
from p2pd.core.derive import Setting
from p2pd.core.gates import lease_behind
from p2pd.core.ids import ObjectId, PeerId
from p2pd.core.leases import find_lease
from p2pd.core.messages import Beacon, Leave, Reduction, Release, Report, Update
from p2pd.core.signed import Signed
from p2pd.core.votes import Vote
from p2pd.core.voting.evidence import Evidence, check_evidence
from p2pd.core.voting.proposals import Proposal
from p2pd.errors import RemoteError

MOST_PER_AUTHOR = {
    "vote": 96,
    "proposal": 24,
    "update": 2,
    "release": 1,
    "reduction": 2,
    "report": 1,
    "evidence": 4,
    "beacon": 1,
    "leave": 1,
}
"""Objects of one kind by one author at one height; of votes and proposals the oldest make room."""
AHEAD_PER_AUTHOR = 8
AHEAD_MOST = 512


class Admission(Enum):
    NEW = "new"
    KNOWN = "known"
    AHEAD = "ahead"
    LATE = "late"
    FULL = "full"
    """Its author has sent too much, not whoever passed it on: which part of it arrives first differs."""
    SUSPENDED = "suspended"
    """Its author counts no longer; whoever passed it on may not know yet."""


@dataclass(slots=True)
class Pool:
    setting: Setting
    previous: Decision
    held: dict[ObjectId, Signed[Any]] = field(default_factory=dict)
    ahead: dict[ObjectId, Signed[Any]] = field(default_factory=dict)

    @property
    def height(self) -> int:
        return self.previous.height + 1

    def admit(self, signed: Signed[Any]) -> Admission:
        """Stores what belongs here.

        Raises:
            RemoteError: it is nobody's to send.
        """
        if signed.id in self.held or signed.id in self.ahead:
            return Admission.KNOWN
        height = signed.scope.height
        if signed.scope != self.setting.scope(height):
            raise RemoteError(f"{signed.kind} of another term or revision")
        if height < self.lowest(signed.kind) and not self._may_be_late(signed):
            return Admission.LATE
        if height < self.height and self._is_idle_reduction(signed):
            return Admission.LATE
        self._check_seat(signed)
        if _by_members_only(signed) and signed.signer in self.previous.state.suspended:
            return Admission.SUSPENDED
        if height > self.height:
            return self._wait(signed)
        self._check_author(signed)
        if not self._make_room(signed):
            return Admission.FULL
        self.held[signed.id] = signed
        return Admission.NEW

    def lowest(self, kind: str) -> int:
        """Height from which on objects of a kind are taken."""
        return self.height - 1 if kind in ("reduction", "report") else self.height

    def _may_be_late(self, signed: Signed[Any]) -> bool:
        """Of the window before: an update for a lease of which nothing was decided; a leave by who has a lease now."""
        if isinstance(signed.content, Leave):
            return signed.scope.height == self.height - 1 and self._has_lease(signed.signer)
        return isinstance(signed.content, Update) and find_lease(signed, self.previous) is not None

    def _has_lease(self, peer: PeerId) -> bool:
        return self.previous.state.plan.lease_of(peer) is not None

    def _is_idle_reduction(self, signed: Signed[Any]) -> bool:
        """The height before ended without a merge to hold it against; its author may not have known."""
        return isinstance(signed.content, Reduction) and self.previous.state.merge is None

    def _wait(self, signed: Signed[Any]) -> Admission:
        if signed.scope.height > self.height + 1:
            return Admission.LATE  # so far ahead that it comes again once this node has caught up
        mine = sum(one.author == signed.author for one in self.ahead.values())
        if mine < AHEAD_PER_AUTHOR and len(self.ahead) < AHEAD_MOST:
            self.ahead[signed.id] = signed
        return Admission.AHEAD

    def _check_seat(self, signed: Signed[Any]) -> None:
        """Also of what waits: a proposal is large, and the set does not grow."""
        if _by_members_only(signed) and signed.author not in self.setting.members(()).weights:
            raise RemoteError(f"{signed.kind} by a key that is no validator")

    def _check_author(self, signed: Signed[Any]) -> None:
        content = signed.content
        if isinstance(content, Update):
            lease_behind(self.setting, signed, self.previous)
        elif isinstance(content, Release):
            if content.plan != self.previous.id or not self._has_lease(signed.signer):
                raise RemoteError("release of a lease that does not exist")
        elif isinstance(content, Reduction):
            if signed.signer not in self._reducers(signed.scope.height):
                raise RemoteError("reduction by a peer that was not drawn")
        elif isinstance(content, Evidence):
            if check_evidence(self.setting.members(()), content) is None:
                raise RemoteError("evidence that shows nothing")
        elif not isinstance(content, Vote | Proposal | Report | Beacon | Leave):
            raise RemoteError(f"a {signed.kind} does not belong to a window")

    def _reducers(self, height: int) -> tuple[PeerId, ...]:
        state = self.previous.state
        if height == self.height:
            return state.plan.reducers
        return state.merge.reducers if state.merge is not None else ()

    def _crowded(self, kind: str) -> bool:
        most = most_present(self.setting.revision.schedule)
        return sum(one.kind == kind for one in self.held.values()) >= most

    def _make_room(self, signed: Signed[Any]) -> bool:
        if signed.kind == "beacon" and self._crowded("beacon"):
            return False
        # Nobody crowds out the leave of one whose lease is waited for.
        if signed.kind == "leave" and not self._has_lease(signed.signer) and self._crowded("leave"):
            return False
        same = [
            one.id
            for one in self.held.values()
            if one.author == signed.author and one.kind == signed.kind and one.scope == signed.scope
        ]
        if len(same) < MOST_PER_AUTHOR[signed.kind]:
            return True
        if signed.kind not in ("vote", "proposal"):
            return False
        del self.held[same[0]]
        return True

    def _may_send(self, signed: Signed[Any]) -> bool:
        """Whoever passed it on could not know: nobody is blamed."""
        try:
            self._check_seat(signed)
            self._check_author(signed)
        except RemoteError:
            return False
        return True

    def advance(self, decision: Decision) -> list[Signed[Any]]:
        """Turns to the height after decision. What waited for it and belongs there comes back, to be admitted anew."""
        self.previous = decision
        due = [one for one in self.ahead.values() if one.scope.height <= self.height]
        waited = [one for one in due if self._may_send(one)]
        self.ahead = {key: one for key, one in self.ahead.items() if one.scope.height > self.height}
        self.held = {
            key: one
            for key, one in self.held.items()
            if (one.scope.height == self.height - 1 and self._outlasts(one))
            or self._may_be_late(one)
        }
        return waited

    def _outlasts(self, signed: Signed[Any]) -> bool:
        """Its height; nobody takes what is idle, so it would be offered in vain."""
        return signed.kind in ("reduction", "report") and not self._is_idle_reduction(signed)

    def inventory(self) -> tuple[ObjectId, ...]:
        return tuple(self.held)

    def missing(self, theirs: tuple[ObjectId, ...]) -> list[Signed[Any]]:
        known = set(theirs)
        return [one for key, one in self.held.items() if key not in known]


def _by_members_only(signed: Signed[Any]) -> bool:
    return isinstance(signed.content, Vote | Proposal | Report | Evidence)
