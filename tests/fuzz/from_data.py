"""Targets that read data sets: what others wrote, and what a person gave to be sharded."""

import json
import socket
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from tempfile import TemporaryDirectory

from p2pd.core.samples import dump_sample, load_sample
from p2pd.core.shards import SET_FILE, load_set, unpack_shard
from p2pd.errors import RemoteError, StoreError, UnreachableError, UsageError, WorkloadError
from p2pd.io.http_files import _Answer, _opened
from p2pd.io.listing import parse_listing
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


LISTED = [{"path": "a/b.shard", "size": 3, "lfs": {"oid": "ab" * 32}, "url": "https://h/b"}]


@DATA.add(
    "list of files",
    RemoteError,
    lambda: [json.dumps(LISTED).encode(), b'{"siblings":[{"rfilename":"x"}]}'],
    "p2pd.io.listing.parse_listing",
)
def list_of_files(data: bytes, scratch: Scratch) -> None:
    for name, one in parse_listing(data).items():
        assert ".." not in one.path.split("/")
        assert name == one.name


ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytes",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/5\r\nContent-Length: 3\r\n\r\ntes",
)


@DATA.add("web server", (RemoteError, UnreachableError), lambda: ANSWERS)
def web_server(data: bytes, scratch: Scratch) -> None:
    """What it answers to the question for a file of five bytes, from the third one on."""
    here, there = socket.socketpair()
    try:
        there.sendall(data[: 2**16])
        there.close()
        response = HTTPResponse(here)
        try:
            response.begin()
        except (OSError, HTTPException, ValueError):
            response.close()
            return
        stream = _opened("http://h", _Answer(here, HTTPConnection("h"), response), 5, 2)
        while stream.read(2**16):
            pass
        stream.close()
    finally:
        here.close()
