"""Targets that read data sets: what others wrote, and what a person gave to be sharded."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from p2pd.core.samples import dump_sample, load_sample
from p2pd.core.shards import SET_FILE, load_set, unpack_shard
from p2pd.errors import RemoteError, StoreError, UsageError, WorkloadError
from p2pd.io.sample_files import parse_line
from p2pd.io.shard_directory import open_directory
from p2pd.workload.samples import load
from p2pd.workload.sharded import Sharded
from tests.fuzz.targets import Registry, Scratch
from tests.io.shard_sets import write_numbers

DATA = Registry()
SAMPLE = {"pixels": [1.5, 2], "name": "x", "pair": (b"y", None)}


@cache
def files() -> dict[str, bytes]:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "set"
        write_numbers(path)
        return {file.name: file.read_bytes() for file in path.iterdir()}


def shard() -> list[bytes]:
    return [files()["train-000000.shard"]]


@DATA.add(
    "sample",
    RemoteError,
    lambda: [dump_sample(SAMPLE)],
    "p2pd.core.samples.load_sample",
    "p2pd.core.samples._float",
    "p2pd.core.samples.dump_sample",
    "p2pd.workload.samples._tensor_of",
)
def sample(data: bytes, scratch: Scratch) -> None:
    try:
        load_sample(data)
    finally:
        load(data)


@DATA.add(
    "shard set", (RemoteError, StoreError), lambda: [files()[SET_FILE]], "p2pd.core.shards.load_set"
)
def shard_set(data: bytes, scratch: Scratch) -> None:
    (scratch / SET_FILE).write_bytes(data)
    try:
        load_set(data)
    finally:
        list(open_directory(scratch).shards.files())


@DATA.add(
    "shard file",
    (RemoteError, WorkloadError),
    shard,
    "p2pd.core.shards.span_of",
    "p2pd.core.shards.unpack_shard",
)
def shard_file(data: bytes, scratch: Scratch) -> None:
    """One that lies under a sound set, as if it had rotted; a worker reads each sample of it."""
    directory = scratch / "set"
    directory.mkdir(exist_ok=True)
    for name, content in files().items():
        (directory / name).write_bytes(content)
    (directory / "train-000000.shard").write_bytes(data)
    split, faults = Sharded(directory), []
    for place in range(4):
        try:
            split[place]
        except WorkloadError as error:
            faults.append(error)
    unpack_shard(data)
    if faults:
        raise faults[0]


@DATA.add(
    "line of JSON", UsageError, lambda: [b'{"a":[1,2.5,null]}\n'], "p2pd.io.sample_files.parse_line"
)
def line_of_json(data: bytes, scratch: Scratch) -> None:
    value = parse_line(data, "here")
    try:
        dump_sample(value)
    except ValueError:
        return
