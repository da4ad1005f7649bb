"""Pipeline `generated`: samples that are made when they are asked for, the same on every node.

Units: samples, by their place in the stream.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from p2pd.errors import WorkloadError
from p2pd.workload.pipelines import Pipeline

SEED_BYTES = 8
SAMPLES_MOST = 2**40


class Generated(Dataset[Any], Pipeline):
    """A virtual stream as a map-style data set: make(chance) gives one sample.

    make may draw from the generator that it is given and from nothing else.
    """

    def __init__(
        self,
        samples: int,
        make: Callable[[torch.Generator], Any],
        *,
        seed: int = 0,
        descriptor: str = "",
        root: Path | None = None,
    ) -> None:
        """samples are one epoch of the stream; descriptor says what it is made of."""
        if not 0 < samples <= SAMPLES_MOST:
            raise WorkloadError(f"a stream has 1 to {SAMPLES_MOST} samples an epoch, got {samples}")
        self._samples = samples
        self._make = make
        self._seed = seed
        self._descriptor = descriptor
        self._root = root

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, place: int) -> Any:  # noqa: ANN401 - whatever make gives
        """The same for the same place and seed, whatever was asked for before, in any process."""
        if not 0 <= place < self._samples:
            raise IndexError(place)
        mixed = sha256(f"{self._seed}/{place}".encode()).digest()[:SEED_BYTES]
        chance = torch.Generator()
        chance.manual_seed(int.from_bytes(mixed))
        return self._make(chance)

    def kind(self) -> str:
        return "generated"

    def descriptor(self) -> str:
        return f"seed {self._seed}: {self._descriptor}" if self._descriptor else ""

    def local_root(self) -> Path | None:
        return self._root
