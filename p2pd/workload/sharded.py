"""Pipeline `sharded`: a data set in shard files, of which only what is leased need be here.

Units: samples, by their place in a split.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from p2pd.core.ids import ArtifactId
from p2pd.core.revision import HEX_ID
from p2pd.core.shards import TRAIN
from p2pd.errors import RemoteError, WorkloadError
from p2pd.workload.contract import Lease
from p2pd.workload.pipelines import Pipeline
from p2pd.workload.places import SampleFiles, find_set, open_set, places
from p2pd.workload.samples import load


class Sharded(Dataset[Any], Pipeline):
    """One split of a set as a map-style data set, read from the files of it that are here."""

    def __init__(
        self,
        data: str | Path,
        split: str = TRAIN,
        *,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        """data: the id of the set in hex, as `p2pd data shard` prints it, or the directory that it wrote.

        transform makes of each stored sample what the loader gets.

        Raises:
            WorkloadError: there is no such set here, or no such split in it.
        """
        text = str(data)
        if HEX_ID.fullmatch(text):
            self._places = places()
            self._set = find_set(ArtifactId(bytes.fromhex(text)), self._places)
        else:
            self._places = (Path(text).expanduser().absolute(),)
            self._set = open_set(self._places[0])
        found = self._set.split(split)
        if found is None:
            has = ", ".join(one.name for one in self._set.splits)
            raise WorkloadError(f"the data set has no split {split!r}, it has {has}: name one")
        self._split = found
        self._files = SampleFiles(self._places, found)
        self._transform = transform
        self._leased: frozenset[int] | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes by number, where directories were classes."""
        return self._set.classes

    def __len__(self) -> int:
        return self._split.samples

    def __getitem__(self, place: int) -> Any:  # noqa: ANN401 - whatever was stored
        """
        Raises:
            WorkloadError: it is not leased, its file is not here, or is damaged.
        """
        if not 0 <= place < self._split.samples:
            raise IndexError(place)
        name = f"sample {place} of split {self._split.name}"
        if self._leased is not None and place not in self._leased:
            raise WorkloadError(
                f"{name} is outside of the lease: train on the samples that the loader is given"
            )
        data = self._files.read(place)
        if data is None:
            file = self._split.file_name(place // self._split.shard_samples)
            raise WorkloadError(
                f"{name} is not here: {file} was not fetched, since no lease of this node holds it"
            )
        try:
            sample = load(data)
        except RemoteError as error:
            raise WorkloadError(f"{name} is damaged: {error}: write the set again") from error
        return sample if self._transform is None else self._transform(sample)

    def kind(self) -> str:
        return "sharded"

    def descriptor(self) -> str:
        if self._split.name != TRAIN:
            raise WorkloadError(
                f"the workload trains on split {self._split.name!r}: leases are dealt of {TRAIN!r}"
            )
        return self._set.id.hex()

    def local_root(self) -> Path | None:
        return self._places[0] if self._places else None

    def prepare(self, lease: Lease) -> None:
        self._leased = frozenset(lease.samples)

    def finish(self, lease: Lease) -> None:
        self._leased = None
