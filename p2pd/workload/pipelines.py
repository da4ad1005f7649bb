"""Where training samples come from: what a revision says of them, so that two nodes that differ notice.

`indexed` samples lie in a data set that every node has. `generated` ones are made when they are asked
for: sample n of a virtual stream follows from n and a seed alone, so that any node makes any slice of
it again.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path


class Pipeline(ABC):
    @abstractmethod
    def kind(self) -> str:
        """indexed or generated."""

    def descriptor(self) -> str:
        """Names the data so that other data have another name: versions, counts, a hash.

        It becomes part of the revision, and a node that computes another one refuses to work.
        Empty where nothing is said.
        """
        return ""

    def local_root(self) -> Path | None:
        """Where the data lie on this machine, for people; None where that means nothing."""
        return None


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
