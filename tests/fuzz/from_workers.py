"""Targets that read what a worker has left for its daemon, for its fellows, and for those after it."""

import os
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch

from p2pd.core.artifact import CHUNK_BYTES
from p2pd.core.encoding import decode, encode
from p2pd.errors import RemoteError
from p2pd.workload.devices.sharing import _Leaf, _Shape
from p2pd.workload.generations import DIGEST_CHARACTERS, Generations
from p2pd.workload.page import FORM, TRACE_AT, look
from p2pd.workload.trees import grown, packed, read_tree, write_tree
from tests.fuzz.targets import Registry, Scratch

WORKERS = Registry()
STATE = {"state": {0: {"step": torch.tensor(3.0), "rates": (0.9, [True, None])}}, "name": "x"}
TRACE = b"""Current thread 0x0000000000000007 (most recent call first):
  File "/a/model.py", line 7 in forward
"""


@WORKERS.add(
    "page",
    RemoteError,
    lambda: [FORM.pack(3, 1, 7).ljust(TRACE_AT, b"\0") + TRACE],
    "p2pd.workload.page.look",
)
def page(data: bytes, scratch: Scratch) -> None:
    """Shared with the user's code, which may write anything there."""
    with tempfile.TemporaryFile(dir=scratch) as file:
        os.pwrite(file.fileno(), data, 0)
        look(file.fileno())


@WORKERS.add(
    "tree",
    RemoteError,
    lambda: [packed(STATE)[0]],
    "p2pd.workload.trees._grown",
    "p2pd.workload.trees.grown",
)
def tree(data: bytes, scratch: Scratch) -> None:
    grown(data, [torch.zeros(2)])


@WORKERS.add(
    "tree of a fellow",
    RemoteError,
    lambda: [encode(_Shape(packed(STATE)[0], (_Leaf("F32", (), "cpu"),)))],
    "p2pd.workload.devices.sharing._take_inner",
)
def tree_of_a_fellow(data: bytes, scratch: Scratch) -> None:
    grown(decode(_Shape, data, limit_bytes=len(data)).tree, [torch.zeros(2)])


@cache
def kept() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "tree"
        write_tree(path, STATE)
        return path.read_bytes()


@WORKERS.add(
    "generation",
    RemoteError,
    lambda: [kept()],
    "p2pd.workload.generations.read",
)
def generation(data: bytes, scratch: Scratch) -> None:
    """Under the name that fits its bytes: what does not is not looked at."""
    chunks = (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
    digest = sha256(b"".join(sha256(chunk).digest() for chunk in chunks)).hexdigest()
    path = scratch / f"inner-1-{digest[:DIGEST_CHARACTERS]}.safetensors"
    path.write_bytes(data)
    try:
        Generations(scratch, "inner").read(1, read_tree)
    finally:
        path.unlink()
