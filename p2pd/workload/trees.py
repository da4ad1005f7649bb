"""Nested mappings and lists of tensors, numbers and text as one file: nothing of it is ever executed.

The tensors are safetensors, to the bit; the last one, `tree`, is canonical CBOR of all else, in which each
tensor is a number. What an optimizer's state_dict() holds comes back equal, the types of its parts included.
"""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from p2pd.core.artifact import ArtifactKind, Manifest
from p2pd.core.encoding import INT_LEAST, INT_MOST, Plain, decode_plain, encode
from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import RemoteError, WorkloadError
from p2pd.tensors.files import ArtifactWriter, TensorFile
from p2pd.tensors.formats import Stored
from p2pd.workload.heads import to_numpy, to_torch
from p2pd.workload.state import DTYPE_NAMES

TREE = "tree"
"""Its name sorts after those of the tensors, which are numbers."""
TENSOR, FLOAT, LIST, TUPLE, MAPPING = "T", "f", "l", "t", "d"

Tree = object
"""Of mappings with keys of text or integers, lists, tuples, tensors, numbers, text, bytes, booleans and None."""


def write_tree(path: Path, tree: Tree) -> Manifest:
    """
    Raises:
        WorkloadError: a part of it is of a type that no file holds; the message says where.
        StoreError: the disk is full or failing.
    """
    plain, tensors = packed(tree)
    arrays: list[Stored] = [to_numpy(tensor) for tensor in tensors]
    arrays.append(np.frombuffer(plain, np.uint8))
    specs = [
        TensorSpec(_name(number), DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), False)
        for number, tensor in enumerate(tensors)
    ]
    schema = Schema((*specs, TensorSpec(TREE, "U8", (len(plain),), False)))
    with ArtifactWriter(path, ArtifactKind.UPDATE, schema) as writer:
        for array in arrays:
            writer.write(array)
        return writer.finish(synced=False)


def read_tree(file: TensorFile) -> Tree:
    """The tensors are copies, on the CPU.

    Raises:
        RemoteError: it is not what write_tree wrote.
    """
    specs = file.tensors
    if not specs or specs[-1].name != TREE or specs[-1].dtype != "U8":
        raise RemoteError("it holds no tree")
    data = file.stored(len(specs) - 1).tobytes()
    tensors = [to_torch(file.stored(n), spec).clone() for n, spec in enumerate(specs[:-1])]
    return grown(data, tensors)


def packed(tree: Tree) -> tuple[bytes, list[torch.Tensor]]:
    """All but the tensors, and these, as they are.

    Raises:
        WorkloadError: as write_tree.
    """
    packing = _Packing()
    return encode(packing.plain(tree, "")), packing.tensors


def grown(data: bytes, tensors: list[torch.Tensor]) -> Tree:
    """The tree that was packed.

    Raises:
        RemoteError: it is none.
    """
    return _grown(decode_plain(data, limit_bytes=len(data)), tensors)


class _Packing:
    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []

    def plain(self, tree: Tree, place: str) -> object:
        match tree:
            case None | bool() | str() | bytes():
                return tree
            case int() if INT_LEAST <= tree <= INT_MOST:
                return tree
            case float():
                return FLOAT, struct.pack("<d", tree)
            case torch.Tensor():
                return TENSOR, self._number(tree, place)
            case list() | tuple():
                kind = LIST if isinstance(tree, list) else TUPLE
                return (kind, *(self.plain(one, f"{place}/{n}") for n, one in enumerate(tree)))
            case Mapping():
                return (MAPPING, *self._entries(tree, place))
            case np.generic():
                return self.plain(tree.item(), place)
        raise _unfit(place, f"an object of type {type(tree).__name__}")

    def _entries(self, tree: Mapping[object, object], place: str) -> list[object]:
        entries: list[object] = []
        for key, value in tree.items():
            if not isinstance(key, str | int):
                raise _unfit(place, f"a key of type {type(key).__name__}")
            entries += [key, self.plain(value, f"{place}/{key}")]
        return entries

    def _number(self, tensor: torch.Tensor, place: str) -> int:
        if tensor.layout is not torch.strided or tensor.dtype not in DTYPE_NAMES:
            raise _unfit(place, f"a tensor of {tensor.layout}, {tensor.dtype}")
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def _grown(plain: Plain, tensors: list[torch.Tensor]) -> Tree:
    if not isinstance(plain, list):
        return plain
    match plain:
        case ["f", bytes() as packed] if len(packed) == struct.calcsize("<d"):
            (value,) = struct.unpack("<d", packed)
            return value
        case ["T", int() as number] if 0 <= number < len(tensors):
            return tensors[number]
        case ["l", *items]:
            return [_grown(item, tensors) for item in items]
        case ["t", *items]:
            return tuple(_grown(item, tensors) for item in items)
        case ["d", *entries] if len(entries) % 2 == 0:
            values = (_grown(value, tensors) for value in entries[1::2])
            return dict(zip(map(_key, entries[::2]), values, strict=True))
    raise RemoteError("its tree is none")


def _key(plain: Plain) -> str | int:
    if isinstance(plain, str | int):
        return plain
    raise RemoteError("its tree has a key that is none")


def _unfit(place: str, what: str) -> WorkloadError:
    return WorkloadError(f"{what} at {place or '/'}, which no file can hold")


def _name(number: int) -> str:
    return f"{number:08}"
