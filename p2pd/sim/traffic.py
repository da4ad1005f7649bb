"""What messages each node of a simulated network sent and received, in bytes, height by height.

Control messages, requests and responses count as their senders made them: what a transport puts
around them is not in it.
"""

from collections import Counter
from dataclasses import dataclass, field

from p2pd.core.decision import Decision
from p2pd.core.ids import RevisionId


@dataclass(frozen=True, slots=True)
class Carried:
    sent_bytes: int
    received_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.sent_bytes + self.received_bytes


@dataclass(slots=True)
class Traffic:
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    """By name of node."""
    adopted: dict[tuple[str, RevisionId, int], Carried] = field(default_factory=dict)
    """What it had been when a node came to a height."""

    def add(self, source: str, target: str, size_bytes: int) -> None:
        self.sent[source] += size_bytes
        self.received[target] += size_bytes

    def on_adopted(self, name: str, decision: Decision) -> None:
        carried = Carried(self.sent[name], self.received[name])
        self.adopted[name, decision.header.revision, decision.height] = carried

    def between(self, name: str, first: Decision, last: Decision) -> Carried:
        """From a node's adoption of one decision to that of a later one."""
        before, after = (
            self.adopted[name, one.header.revision, one.height] for one in (first, last)
        )
        return Carried(
            after.sent_bytes - before.sent_bytes, after.received_bytes - before.received_bytes
        )
