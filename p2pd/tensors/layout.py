"""Byte-canonical safetensors: exactly one header for each list of tensors.

A file is the header's length (8 bytes, little-endian), the header (JSON without spaces, padded with
spaces to 8 bytes), then the data in order of name without gaps. No metadata. Any safetensors
library reads it; this reader refuses all other ways to write the same tensors, because an artifact
is named by its hash.
Source: the safetensors format description, https://github.com/huggingface/safetensors.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from p2pd.core.codecs import element_count
from p2pd.core.work import DTYPE_BYTES, Schema, TensorSpec
from p2pd.errors import RemoteError

LENGTH_BYTES = 8
ALIGNMENT_BYTES = 8
MAX_HEADER_BYTES = 2**24
"""Some hundred thousand tensors; more is refused before it is read."""
MAX_DIMENSIONS = 16
MAX_SIZE = 2**40
"""Along one dimension."""
QUOTED_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Layout:
    tensors: tuple[TensorSpec, ...]
    """Whether a tensor is a buffer is not in the file: always False when read from one."""
    header: bytes
    """All bytes before the data."""
    starts: tuple[int, ...]
    """Where each tensor's data begins, in bytes from the start of the file."""
    size_bytes: int

    def __post_init__(self) -> None:
        if len(self.header) - LENGTH_BYTES > MAX_HEADER_BYTES:
            raise RemoteError(f"safetensors header exceeds {MAX_HEADER_BYTES} bytes")


def quoted(name: str) -> str:
    """A name for a message: one line, bounded, whatever a peer put into it."""
    return repr(name)[:QUOTED_CHARACTERS]


def layout_of(tensors: Sequence[TensorSpec]) -> Layout:
    """Where each of tensors, sorted by name, lies in its file.

    Raises:
        RemoteError: a tensor that no file can hold.
    """
    entries: dict[str, object] = {}
    ends: list[int] = [0]
    for tensor in tensors:
        _check_tensor(tensor)
        end = ends[-1] + element_count(tensor) * DTYPE_BYTES[tensor.dtype]
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [ends[-1], end],
        }
        ends.append(end)
    try:
        text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise RemoteError("a tensor's name is not valid text") from error
    text += b" " * (-len(text) % ALIGNMENT_BYTES)
    header = len(text).to_bytes(LENGTH_BYTES, "little") + text
    starts = tuple(len(header) + end for end in ends[:-1])
    return Layout(tuple(tensors), header, starts, len(header) + ends[-1])


def header_size(prefix: bytes, file_bytes: int) -> int:
    """Bytes before the data, from the first 8 bytes of a file of file_bytes.

    Raises:
        RemoteError: too short for a header, or the header too long.
    """
    if len(prefix) < LENGTH_BYTES:
        raise RemoteError(f"not safetensors: {file_bytes} bytes are too few for a header")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if length > min(MAX_HEADER_BYTES, file_bytes - LENGTH_BYTES):
        raise RemoteError(f"not safetensors: header of {length} bytes in {file_bytes} bytes")
    return LENGTH_BYTES + length


def parse(header: bytes, file_bytes: int) -> Layout:
    """The layout of a file of file_bytes that begins with header.

    Raises:
        RemoteError: not canonical, or data of another size than the header says.
    """
    try:
        entries = json.loads(header[LENGTH_BYTES:])
    except (ValueError, RecursionError) as error:
        raise RemoteError("safetensors header is not JSON") from error
    if not isinstance(entries, dict):
        raise RemoteError("safetensors header is not an object")
    names = list(entries)
    if names != sorted(names):
        raise RemoteError("tensors are not sorted by name")
    layout = layout_of([tensor_of(name, entry) for name, entry in entries.items()])
    if layout.header != header:
        raise RemoteError("safetensors header is not canonical")
    if layout.size_bytes != file_bytes:
        raise RemoteError(f"{file_bytes} bytes, but the header wants {layout.size_bytes}")
    return layout


def difference(found: Sequence[TensorSpec], schema: Schema) -> str | None:
    """How the first tensor that differs from schema does; None when all agree."""
    for have, want in zip(found, schema.tensors, strict=False):
        if have.name != want.name:
            if have.name > want.name:
                return f"tensor {quoted(want.name)} is missing"
            return f"tensor {quoted(have.name)} is not in the schema"
        if have.dtype != want.dtype:
            return f"tensor {quoted(want.name)} is {have.dtype}, the schema says {want.dtype}"
        if have.shape != want.shape:
            return (
                f"tensor {quoted(want.name)} has shape {list(have.shape)}, not {list(want.shape)}"
            )
    if len(found) < len(schema.tensors):
        return f"tensor {quoted(schema.tensors[len(found)].name)} is missing"
    if len(found) > len(schema.tensors):
        return f"tensor {quoted(found[len(schema.tensors)].name)} is not in the schema"
    return None


def _check_tensor(tensor: TensorSpec) -> None:
    if not tensor.name or tensor.name == "__metadata__":
        raise RemoteError(f"{quoted(tensor.name)} cannot be a tensor's name")
    if tensor.dtype not in DTYPE_BYTES:
        raise RemoteError(f"tensor {quoted(tensor.name)} has unknown type {quoted(tensor.dtype)}")
    if len(tensor.shape) > MAX_DIMENSIONS or any(
        not 0 <= size <= MAX_SIZE for size in tensor.shape
    ):
        raise RemoteError(f"tensor {quoted(tensor.name)} has a shape that is none")


def tensor_of(name: str, entry: object) -> TensorSpec:
    """What one header entry says; whether all of it is canonical is seen by writing it again."""
    if not isinstance(entry, dict):
        raise RemoteError(f"tensor {quoted(name)} is not described by an object")
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise RemoteError(f"tensor {quoted(name)} has no type or no shape")
    if any(type(size) is not int for size in shape):
        raise RemoteError(f"tensor {quoted(name)} has a shape that is none")
    return TensorSpec(name, dtype, tuple(shape), False)
