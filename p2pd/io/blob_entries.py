"""What the store knows of each artifact on its disk."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import trio

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId
from p2pd.io.blob_files import Stamp


@dataclass(slots=True, eq=False)
class Entry:
    artifact: ArtifactId
    manifest: Manifest
    complete: bool = False
    missing: set[int] | None = None
    """None: left by an earlier run and not looked at yet."""
    wanted: bool = False
    """Begun in this run, and not let go by its last pin since."""
    stamp: Stamp | None = None
    """Of the payload when its bytes were last known to be its own; None: left by an earlier run."""
    turn: trio.Lock = field(default_factory=trio.Lock)
    """Held while its files change."""

    def holds(self, index: int) -> bool:
        return self.complete or (self.missing is not None and index not in self.missing)

    @property
    def missing_bytes(self) -> int:
        if self.complete:
            return 0
        if self.missing is None:
            return self.manifest.size_bytes
        return sum(self.manifest.chunk_bytes(index) for index in self.missing)


@dataclass(frozen=True, slots=True)
class Victim:
    """What may be removed to make room."""

    artifact: ArtifactId
    size_bytes: int
    damaged: bool
    """The copy that was moved aside, not the artifact."""


def collectable(
    entries: Collection[Entry],
    pinned: Container[ArtifactId],
    damaged: Mapping[ArtifactId, int],
) -> Iterator[Victim]:
    """What may go, and in which order; entries are given oldest first."""
    for artifact, size_bytes in damaged.items():
        yield Victim(artifact, size_bytes, damaged=True)
    free = [entry for entry in entries if entry.artifact not in pinned and not entry.turn.locked()]
    for entry in free:
        if entry.complete:
            yield Victim(entry.artifact, entry.manifest.size_bytes, damaged=False)
    for entry in free:
        if not entry.complete and not entry.wanted:
            yield Victim(entry.artifact, entry.manifest.size_bytes, damaged=False)


def first_enough(free: Iterable[Victim], lacking: int) -> tuple[list[Victim], int]:
    """As many as free so many bytes, and what all of them leave lacking; 0 or less where they are enough."""
    victims: list[Victim] = []
    for victim in free if lacking > 0 else ():
        victims.append(victim)
        lacking -= victim.size_bytes
        if lacking <= 0:
            break
    return victims, lacking


def is_lasting(manifest: Manifest) -> bool:
    """Nobody needs an update when its window is over; a trainer that loses one has lost a lease."""
    return manifest.kind is not ArtifactKind.UPDATE
