"""Lanes of simulated nodes, watched by the checkers, some of them with a rule that is broken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from p2pd.core.decision import Decision, Record
from p2pd.core.derive import Setting
from p2pd.core.encoding import decode
from p2pd.core.governance import SignedGovernance
from p2pd.core.ids import PeerId
from p2pd.core.messages import Choices, Report
from p2pd.core.signed import Signed
from p2pd.core.talk import Holdings
from p2pd.core.voting.events import Defence
from p2pd.core.voting.members import Members
from p2pd.core.work import Inspection, InspectJob, Merged, MergeJob, RebuildJob
from p2pd.errors import RemoteError
from p2pd.node.driver import drive
from p2pd.node.lane import Lane
from p2pd.ports import Math
from p2pd.sim.bounds import Burden
from p2pd.sim.checkers import Checkers
from p2pd.sim.traffic import Traffic

LOOK_S = 1.0


@dataclass(frozen=True)
class VisibleMembers(Members):
    """The broken rule: whoever was lost from sight counts no longer, and a majority of the rest decides."""

    lost: Callable[[], frozenset[PeerId]]

    @property
    def quorum(self) -> int:  # looked up anew each time: it moves
        lost = self.lost()
        return sum(row.weight for row in self.rows if row.peer not in lost) // 2 + 1


@dataclass(frozen=True, slots=True)
class VisibleSetting(Setting):
    lost: Callable[[], frozenset[PeerId]] = frozenset

    def electorate(self, suspended: tuple[PeerId, ...]) -> Members:
        members = self.members(suspended)
        return VisibleMembers(members.thresholds, members.rows, self.lost)


@dataclass(frozen=True, slots=True)
class CountedMath:
    """Port Math, for one lane of a node."""

    math: Math
    looked: Callable[[], None]

    async def inspect(self, job: InspectJob) -> Inspection:
        self.looked()
        return await self.math.inspect(job)

    async def merge(self, job: MergeJob) -> Merged:
        return await self.math.merge(job)

    async def rebuild(self, job: RebuildJob) -> None:
        await self.math.rebuild(job)

    async def self_test(self) -> None:
        await self.math.self_test()


class WatchedLane(Lane):
    """Shows the checkers what leaves a node and what it makes durable."""

    checkers: Checkers
    name: str
    traffic: Traffic
    voted: Callable[[], None]
    """Called once a vote is out."""
    credulous: bool = False
    """Takes what a proposal carries without looking at the signatures in it."""
    told = 0
    """Height of the last decision that the checkers know of."""

    @property
    def math(self) -> Math:
        return CountedMath(self._hub.math, partial(self.checkers.bounds.on_look, self.name))

    async def open(self) -> None:
        await Lane.open(self)
        self.told = self.decision.height
        self.checkers.on_opened(self.name, self.decision)

    async def publish(self, signed: Signed[Any]) -> None:
        if signed.kind in ("vote", "proposal"):
            self.checkers.on_sent(signed)
            if self._in_memory(signed):
                self.checkers.on_sending(self.name, signed, self.stored_votes() or b"")
        elif isinstance(signed.content, Report) and signed.signer in self.checkers.names:
            self.checkers.charter.on_reported(signed)
        await Lane.publish(self, signed)
        if signed.kind == "vote":
            self.voted()

    def lacking(self, holdings: Holdings) -> Sequence[Signed[Any]]:
        lacking = Lane.lacking(self, holdings)
        for signed in lacking:
            if signed.author == self.key and self._in_memory(signed):
                self.checkers.on_showing(self.name, signed, self.stored_votes() or b"")
        return lacking

    def _in_memory(self, signed: Signed[Any]) -> bool:
        """What is over needs none."""
        return signed.scope.height == self.pool.height

    def receive(self, signed: Signed[Any], source: PeerId) -> None:
        Lane.receive(self, signed, source)
        if self.name.startswith("validator"):
            self.checkers.on_heard(self.name, signed, held=signed.id in self.pool.held)

    def hear_authority(self, signed: SignedGovernance) -> None:
        if self._hub.transport.peer in self.checkers.names:
            self.checkers.charter.on_held(self._hub.transport.peer, signed, self.decision.height)
        Lane.hear_authority(self, signed)

    def open_choices(self, data: bytes) -> Choices:
        return decode(Choices, data) if self.credulous else Lane.open_choices(self, data)

    async def adopt(self, record: Record, *, derived: bool = False) -> None:
        try:
            await Lane.adopt(self, record, derived=derived)
        except RemoteError:
            if not self._counts_otherwise():
                raise
            # By the broken rule a certificate is what it was to those who made it.
            if record.decision.header.previous == self.decision.id:
                await self.chronicle.adopt(record)
                self._move_on(record.decision)
                self._neighbours.tell_all(self._tip())
        # The role and catching up may bring the same decision at a time.
        if self.told < self.decision.height and self.decision.id == record.decision.id:
            self.told = self.decision.height
            self.checkers.on_adopted(self.name, record)

    def _move_on(self, decision: Decision) -> None:
        held, ahead = (*self.pool.held.values(),), (*self.pool.ahead.values(),)
        self.checkers.on_ended(
            self.name, self.decision, Burden(held, ahead, {*self.artifacts.private})
        )
        super()._move_on(decision)
        self.traffic.on_adopted(self.name, decision)

    async def leap(self, record: Record) -> None:
        before = self.decision.height
        await Lane.leap(self, record)
        if before < self.decision.height and self.decision.id == record.decision.id:
            self.told = self.decision.height
            self.checkers.on_leapt(self.name, record)

    def _counts_otherwise(self) -> bool:
        return (
            isinstance(self.setting, VisibleSetting)
            or Defence.COUNTING in self.setting.defences_off
        )

    async def _serve(self) -> None:
        if not isinstance(self.setting, VisibleSetting):
            await drive(self.role, self.inbox)
            return
        # By the broken rule votes are counted anew as soon as somebody is lost from sight, or found.
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive, self.role, self.inbox)
                lost = self.setting.lost()
                while lost == self.setting.lost():  # noqa: ASYNC110 - links tell nobody here
                    await trio.sleep(LOOK_S)
                nursery.cancel_scope.cancel()
            self.role = self._plugin.at(self)
