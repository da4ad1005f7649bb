"""What a simulated fleet trains, and the devices of its nodes that do it: scripted, or whatever has their ports."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from p2pd.core.artifact import ArtifactKind
from p2pd.core.encoding import encode
from p2pd.core.genesis import Genesis
from p2pd.core.revision import SignedRevision
from p2pd.ports import Math, Worker
from p2pd.sim import scripted
from p2pd.sim.breaking import Audience
from p2pd.sim.chains import revision_of
from p2pd.sim.lives import Life
from p2pd.sim.shape import FleetShape

FAILURES = 0.02
"""Of the leases that scripted workers train."""


class Subject(Protocol):
    """One for all nodes of a fleet, and for all their lives."""

    @property
    def head(self) -> bytes:
        """The payload of the genesis head of all revisions."""
        ...

    @property
    def data(self) -> Sequence[tuple[ArtifactKind, bytes]]:
        """The files of its data set, where it comes with the leases: the seeds have them."""
        ...

    @property
    def quota_bytes(self) -> int:
        """That each node's store takes."""
        ...

    def revision(
        self, seed: int, shape: FleetShape, genesis: Genesis, number: int
    ) -> SignedRevision: ...

    def math(self, life: Life, dice: Random, told: Audience) -> Math:
        """For one life of a node; told hears of each result."""
        ...

    def worker(self, life: Life, dice: Random, doubts: float) -> Worker:
        """For one life of a node; doubts: how often its own samples reject a head."""
        ...


class ScriptedSubject:
    """Four integers that walk towards a target: thousands of windows in minutes."""

    head = encode(scripted.START)
    data = ()
    quota_bytes = 2**32

    def revision(
        self, seed: int, shape: FleetShape, genesis: Genesis, number: int
    ) -> SignedRevision:
        return revision_of(seed, shape, genesis, number)

    def math(self, life: Life, dice: Random, told: Audience) -> Math:
        return scripted.ScriptedMath(life.blobs, dice, told.inspected, told.merged)

    def worker(self, life: Life, dice: Random, doubts: float) -> Worker:
        return scripted.ScriptedWorker(life.blobs, dice, FAILURES, doubts)


SCRIPTED = ScriptedSubject()
