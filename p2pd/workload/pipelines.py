"""Where training samples come from: what a revision says of them, so that two nodes that differ notice.

`indexed` samples lie in a data set that every node has. `generated` ones are made when they are asked
for: sample n of a virtual stream follows from n and a seed alone, so that any node makes any slice of
it again. `sharded` ones lie in files that a node fetches with its leases. `custom` is the user's own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2pd.workload.contract import Lease


class Pipeline(ABC):
    @abstractmethod
    def kind(self) -> str:
        """indexed, generated, sharded or custom."""

    def descriptor(self) -> str:
        """Names the data so that other data have another name: versions, counts, a hash.

        It becomes part of the revision, and a node that computes another one refuses to work.
        Empty where nothing is said.
        """
        return ""

    def local_root(self) -> Path | None:
        """Where the data lie on this machine, for people; None where that means nothing."""
        return None

    def prepare(self, lease: "Lease") -> None:
        """Called before each lease is trained, in the worker: to bring its samples, say.

        What it raises gives the lease back, with what it said as the reason.
        """
        return

    def finish(self, lease: "Lease") -> None:
        """Called after each lease for which prepare returned, however its training ended."""
        return


@contextmanager
def leased(pipeline: Pipeline, lease: "Lease") -> Iterator[None]:
    """The time in which a lease is trained, as the pipeline is told of it."""
    pipeline.prepare(lease)
    try:
        yield
    finally:
        pipeline.finish(lease)


@dataclass(frozen=True, slots=True)
class Indexed(Pipeline):
    """A map-style data set that every node builds alike."""

    text: str = ""
    root: Path | None = None

    def kind(self) -> str:
        return "indexed"

    def descriptor(self) -> str:
        return self.text

    def local_root(self) -> Path | None:
        return self.root
