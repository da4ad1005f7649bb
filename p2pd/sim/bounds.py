"""What a node holds and does for others at one height is bounded, author by author (I9).

Looked at whenever a height ends, and the limits are stated here anew.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from p2pd.core.decision import Decision, open_plans
from p2pd.core.ids import ArtifactId, PublicKey
from p2pd.core.signed import Signed
from p2pd.core.wording import counted

Fail = Callable[[str, int, str], None]

OF_ONE = {"vote": 96, "proposal": 24}
"""Objects by one author, of one height and kind."""
OF_ONE_ELSE = 4
AHEAD_OF_ONE = 8
"""Objects by one author that wait for the next height."""
AHEAD = 512
PER_LEASE = 2
"""Updates that are fetched and kept: more show nothing new."""
LOOKS_PER_LEASE = 4
"""Updates whose tensors are looked at: those of proposals besides."""


@dataclass(frozen=True, slots=True)
class Burden:
    """What a node has on its hands when a height ends."""

    held: Collection[Signed[Any]]
    ahead: Collection[Signed[Any]]
    """Of the next height."""
    updates: Collection[ArtifactId]
    """Kept, and not decided."""


@dataclass(slots=True)
class Bounds:
    fail: Fail
    looks: Counter[str] = field(default_factory=Counter)
    """Into tensors, by node, since its open height began."""
    leases: dict[str, int] = field(default_factory=dict)
    """Of the height before, by node: a look may end a height later."""

    def on_look(self, name: str) -> None:
        self.looks[name] += 1

    def on_begun(self, name: str) -> None:
        """A node starts."""
        self.looks[name] = self.leases[name] = 0

    def on_ended(self, name: str, previous: Decision, burden: Burden) -> None:
        """Called when the height after previous ends for a node."""
        height, leases, looks = previous.height + 1, _leases(previous), self.looks[name]
        of_one = Counter((one.author, one.kind, one.scope.height) for one in burden.held)
        for (_, kind, _), count in of_one.items():
            if count > OF_ONE.get(kind, OF_ONE_ELSE):
                self._found(
                    height, name, f"holds {counted(count, 'object')} of kind {kind} of one author"
                )
        for count in _by_author(burden.ahead).values():
            if count > AHEAD_OF_ONE:
                self._found(height, name, f"lets {counted(count, 'object')} of one author wait")
        if len(burden.ahead) > AHEAD:
            self._found(height, name, f"lets {counted(len(burden.ahead), 'object')} wait")
        if len(burden.updates) > PER_LEASE * leases:
            what = f"keeps {counted(len(burden.updates), 'update')} for {counted(leases, 'lease')}"
            self._found(height, name, what)
        if looks > LOOKS_PER_LEASE * (leases + self.leases.get(name, 0)):
            what = f"looked into {counted(looks, 'update')} for {counted(leases, 'lease')}"
            self._found(height, name, what)
        self.looks[name], self.leases[name] = 0, leases

    def _found(self, height: int, name: str, what: str) -> None:
        self.fail("I9", height, f"{name} {what}")


def _leases(previous: Decision) -> int:
    return sum(len(plan.roster) for _, plan in open_plans(previous))


def _by_author(objects: Iterable[Signed[Any]]) -> Counter[PublicKey]:
    return Counter(one.author for one in objects)
