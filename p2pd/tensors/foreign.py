"""Safetensors files as other programs write them: any order, metadata, gaps between tensors.

Only the header is read here, and nothing of it is believed before it was checked. A file of torch.save is
pickled: it is told apart, and never opened.
Source: the safetensors format description, https://github.com/huggingface/safetensors.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from p2pd.core.codecs import element_count
from p2pd.core.work import DTYPE_BYTES, TensorSpec
from p2pd.errors import RemoteError, StoreError, advice
from p2pd.tensors.layout import LENGTH_BYTES, header_size, quoted, tensor_of

METADATA = "__metadata__"
ZIP, PICKLE = b"PK\x03\x04", b"\x80"
"""How files of torch.save begin, new ones and old ones. As a header's length the first is beyond every limit."""
CONVERT = (
    "a file of torch.save, which is pickled and never opened here: convert it where you trust it: "
    'python -c "import torch; from safetensors.torch import save_file; '
    "save_file(torch.load('FILE.pt', weights_only=True), 'FILE.safetensors')\""
)


@dataclass(frozen=True, slots=True)
class Entry:
    tensor: TensorSpec
    start: int
    """Where its data begins, in bytes from the start of the file."""

    def named(self, name: str, *, buffer: bool) -> TensorSpec:
        return replace(self.tensor, name=name, buffer=buffer)


def entries_of(path: Path) -> tuple[Entry, ...]:
    """The tensors of a file, in the order of its header.

    Raises:
        RemoteError: it is no safetensors file, or one that contradicts itself; the message says how.
        StoreError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            prefix = file.read(LENGTH_BYTES)
            if prefix.startswith(ZIP) or (prefix.startswith(PICKLE) and _is_pickle(prefix)):
                raise RemoteError(CONVERT)
            rest = file.read(header_size(prefix, file_bytes) - LENGTH_BYTES)
    except OSError as error:
        raise StoreError(f"{path}: {advice(error)}") from error
    return _parsed(rest, LENGTH_BYTES + len(rest), file_bytes)


def _is_pickle(prefix: bytes) -> bool:
    """Byte two is the protocol, and what follows is no small length."""
    return len(prefix) == LENGTH_BYTES and prefix[1] in range(2, 6) and any(prefix[4:])


def _parsed(text: bytes, data_start: int, file_bytes: int) -> tuple[Entry, ...]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteError("not safetensors: its header is not JSON") from error
    if not isinstance(header, dict):
        raise RemoteError("not safetensors: its header is not an object")
    found = []
    for name, entry in header.items():
        if name == METADATA:
            continue
        tensor = tensor_of(name, entry)
        if tensor.dtype not in DTYPE_BYTES:
            raise RemoteError(
                f"tensor {quoted(name)} has the type {quoted(tensor.dtype)}: a head holds "
                f"{', '.join(DTYPE_BYTES)} only"
            )
        found.append(Entry(tensor, data_start + _offset(tensor, entry, file_bytes - data_start)))
    return tuple(found)


def _offset(tensor: TensorSpec, entry: dict[str, object], data_bytes: int) -> int:
    """Raises RemoteError where what the header says of a tensor's place cannot be."""
    if any(size < 0 for size in tensor.shape):
        raise RemoteError(f"tensor {quoted(tensor.name)} has a shape that is none")
    offsets = entry.get("data_offsets")
    if not isinstance(offsets, list) or [type(one) for one in offsets] != [int, int]:
        raise RemoteError(f"tensor {quoted(tensor.name)} has no place in the file")
    start, end = int(offsets[0]), int(offsets[1])
    size_bytes = element_count(tensor) * DTYPE_BYTES[tensor.dtype]
    if not 0 <= start <= end <= data_bytes or end - start != size_bytes:
        raise RemoteError(
            f"tensor {quoted(tensor.name)} wants {size_bytes} bytes of a place that has other: "
            "the file was cut short or changed"
        )
    return start
