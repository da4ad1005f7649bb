"""What a lease of a revision fetches of its data set, where the data come with the leases. Samples, bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path

from p2pd.cli.revisions import size
from p2pd.core.revision import DataSpec, Revision
from p2pd.core.shards import TRAIN, ShardSet, Split
from p2pd.core.wording import counted
from p2pd.io.shard_directory import open_directory


@dataclass(frozen=True, slots=True)
class LeaseData:
    files: int
    """At most."""
    size_bytes: int
    """At most, by the mean size of a file."""
    used: float
    """Share of what is fetched that a lease trains on."""
    file_samples: int
    validation_bytes: int


def lease_data(revision: Revision, directories: Sequence[Path]) -> LeaseData | None:
    """For a newcomer's lease; None where the data do not come with leases, or their set is in no directory."""
    shards = _set_in(revision.data, directories)
    split = None if shards is None else shards.split(TRAIN)
    if shards is None or split is None:
        return None
    each = files_of_microshard(revision.data, split)
    microshards = min(revision.schedule.lease_shards, revision.data.shards)
    files = min(each * microshards, len(split.sizes))
    mean = sum(split.sizes) / len(split.sizes)
    used = min(1.0, revision.data.shard_samples / (each * split.shard_samples))
    valid = sum(sum(one.sizes) for one in shards.splits if one.name != TRAIN)
    return LeaseData(files, round(files * mean), used, split.shard_samples, valid)


def files_of_microshard(data: DataSpec, split: Split) -> int:
    """Of how many files a microshard has samples, at most."""
    microshard, file = data.shard_samples, split.shard_samples
    latest = file - gcd(microshard, file)  # in a file, that a microshard begins
    return -(-(latest + microshard) // file)


def data_lines(revision: Revision, directories: Sequence[Path]) -> list[str]:
    found = lease_data(revision, directories)
    if found is None:
        return []
    lease = counted(revision.schedule.lease_shards, "microshard")
    lines = [
        f"lease      of {lease} (schedule.lease_shards) fetches up to {counted(found.files, 'file')} of data,"
        f" {size(found.size_bytes)};",
        f"           whoever validates fetches {size(found.validation_bytes)} once",
    ]
    if found.used < 1:
        lines.append(
            f"           it trains on {found.used:.0%} of that: a schedule.shard_samples of"
            f" {found.file_samples} makes it all"
        )
    return lines


def _set_in(data: DataSpec, directories: Sequence[Path]) -> ShardSet | None:
    if data.shard_set is None:
        return None
    sets = (open_directory(directory).shards for directory in directories)
    return next((one for one in sets if one.id == data.shard_set), None)
