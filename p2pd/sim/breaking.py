"""The rules and ports of a simulated node: honest ones, or in place of one of them one that is broken."""

from collections.abc import Callable
from dataclasses import dataclass

from p2pd.core.derive import Setting
from p2pd.core.ids import PeerId, TermId, digest
from p2pd.core.work import Inspection, Merged, MergeJob
from p2pd.node.node import Node
from p2pd.ports import Ledger, Math
from p2pd.sim.breaks import RULES, Break
from p2pd.sim.broken import ArrivalMath, LazyLedger
from p2pd.sim.watched import VisibleSetting


@dataclass(frozen=True, slots=True)
class TermSetting(Setting):
    """After the authority began a new term."""

    number: int = 1

    @property
    def term(self) -> TermId:
        return TermId(digest("term", self.genesis.network + self.number.to_bytes(8)))


def setting_of(plain: Setting, term: int, broken: Break | None) -> Setting:
    """The rules of a revision in its first, second, ... term."""
    off = frozenset({RULES[broken]}) if broken in RULES else plain.defences_off
    if term and broken is not Break.TERM:
        return TermSetting(plain.genesis, plain.revision, off, number=term)
    return Setting(plain.genesis, plain.revision, off)


def setting_for(node: Node, setting: Setting, broken: Break | None) -> Setting:
    """The rules by which one node plays."""
    if broken is not Break.QUORUM:
        return setting
    seen: set[PeerId] = set()

    def lost() -> frozenset[PeerId]:
        linked = {link.peer for link in node.transport.links()}
        seen.update(linked)
        return frozenset(seen - linked)

    return VisibleSetting(setting.genesis, setting.revision, lost=lost)


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is told what a node's math found."""

    inspected: Callable[[Inspection], None]
    merged: Callable[[MergeJob, Merged], None]


def math_of(make: Callable[[Audience], Math], told: Audience, broken: Break | None) -> Math:
    """What make gives for those who are to be told, or that with other results, of which they are told."""
    if broken is Break.ARRIVAL:
        return ArrivalMath(make(Audience(told.inspected, lambda *_: None)), told.merged)
    return make(told)


def ledger_of(ledger: Ledger, broken: Break | None) -> Ledger:
    return LazyLedger(ledger) if broken is Break.DURABLE else ledger
