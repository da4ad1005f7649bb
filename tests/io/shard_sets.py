"""Small data sets in shard files."""

from pathlib import Path

from p2pd.core.samples import dump_sample
from p2pd.core.shards import ShardSet
from p2pd.io.shard_writer import Source, write_set


def numbers(count: int, start: int = 0) -> Source:
    return Source("numbers", [dump_sample((n, f"number {n}")) for n in range(start, start + count)])


def write_numbers(out: Path, train: int = 10, valid: int = 3, each: int = 4) -> ShardSet:
    return write_set(out, {"train": numbers(train), "valid": numbers(valid, 1000)}, each)
