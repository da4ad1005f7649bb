"""Artifacts as files: memory-mapped reading, streamed writing with the manifest made on the way."""

import mmap
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import TracebackType

import numpy as np

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.codecs import element_count
from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import LocalError, RemoteError, StoreError, advice
from p2pd.tensors.formats import FORMATS, Stored, Values, canonical_zero, decode, finite
from p2pd.tensors.layout import (
    LENGTH_BYTES,
    Layout,
    difference,
    header_size,
    layout_of,
    parse,
    quoted,
)

WRITEBACK_BYTES = 8 * 2**20


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {advice(error)}") from error


class TensorFile:
    """A canonical safetensors file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        """Opens and checks the layout; nothing of the data is read.

        Raises:
            RemoteError: not byte-canonical safetensors.
            StoreError: the file cannot be read.
        """
        with _storing(path), path.open("rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            prefix = file.read(LENGTH_BYTES)
            rest = file.read(header_size(prefix, file_bytes) - LENGTH_BYTES)
            self.layout: Layout = parse(prefix + rest, file_bytes)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return self.layout.tensors

    def require(self, schema: Schema) -> None:
        """Raises RemoteError, naming the first tensor that is not as schema says."""
        if (found := difference(self.tensors, schema)) is not None:
            raise RemoteError(found)

    def stored(self, index: int, span: slice | None = None) -> Stored:
        """Elements of one tensor as they lie in the file: a flat, read-only view, no copy."""
        tensor = self.tensors[index]
        start, stop, _ = (span or slice(None)).indices(element_count(tensor))
        storage = FORMATS[tensor.dtype].storage
        if stop <= start:
            return np.empty(0, storage)
        offset = self.layout.starts[index] + start * storage.itemsize
        return np.frombuffer(self._map, storage, stop - start, offset)

    def values(self, index: int, span: slice) -> Values:
        """Elements of one floating tensor as float64, zeros positive.

        Raises:
            RemoteError: some are not finite.
        """
        tensor = self.tensors[index]
        stored = self.stored(index, span)
        if not finite(stored, tensor.dtype):
            raise RemoteError(f"tensor {quoted(tensor.name)} has values that are not finite")
        return decode(stored, tensor.dtype)


class ArtifactWriter:
    """Writes one artifact, front to back, hashing as it goes; unlinks what is not finished."""

    def __init__(self, path: Path, kind: ArtifactKind, schema: Schema) -> None:
        self._path = path
        self._kind = kind
        self._schema = schema
        self._layout = layout_of(schema.tensors)
        self._written_bytes = 0
        self._on_the_way_bytes = 0
        """Of what was written, what the disk has been told to take already."""
        self._chunks: list[bytes] = []
        self._hash = sha256()
        self._finished = False
        with _storing(path):
            self._file = path.open("xb")

    def __enter__(self) -> "ArtifactWriter":
        self._write(memoryview(self._layout.header))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        if not self._finished:
            self._path.unlink(missing_ok=True)

    def write(self, elements: Stored) -> None:
        """Adds the next elements, in order of name; they must be in the type that the file holds.

        Raises:
            StoreError: the disk is full or failing.
        """
        self._write(memoryview(np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data))

    def finish(self, *, synced: bool = True) -> Manifest:
        """Puts all of it on stable storage, if it is to last."""
        if self._written_bytes != self._layout.size_bytes:
            raise LocalError(
                f"{self._path}: wrote {self._written_bytes} of {self._layout.size_bytes} bytes"
            )
        with _storing(self._path):
            self._file.flush()
            if synced:
                os.fsync(self._file.fileno())
        if self._written_bytes % CHUNK_BYTES:
            self._chunks.append(self._hash.digest())
        self._finished = True
        return Manifest(self._kind, self._schema.id, self._written_bytes, tuple(self._chunks))

    def _write(self, data: memoryview) -> None:
        with _storing(self._path):
            self._file.write(data)
            self._begin_writeback()
        while data:
            part = data[: CHUNK_BYTES - self._written_bytes % CHUNK_BYTES]
            self._hash.update(part)
            self._written_bytes += len(part)
            if self._written_bytes % CHUNK_BYTES == 0:
                self._chunks.append(self._hash.digest())
                self._hash = sha256()
            data = data[len(part) :]

    def _begin_writeback(self) -> None:
        """So that little is left for the sync at the end. Pages that are being written stay in memory.

        Source: posix_fadvise(2); Linux starts to write what is dirty of a range that is not needed.
        """
        waiting_bytes = self._written_bytes - self._on_the_way_bytes
        if sys.platform == "linux" and waiting_bytes >= WRITEBACK_BYTES:
            self._file.flush()
            place = self._file.fileno(), self._on_the_way_bytes, waiting_bytes
            os.posix_fadvise(*place, os.POSIX_FADV_DONTNEED)
            self._on_the_way_bytes = self._written_bytes


def sync_directory(path: Path) -> None:
    """Makes the names in it durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_artifact(
    path: Path,
    kind: ArtifactKind,
    schema: Schema,
    arrays: Mapping[str, Stored],
    *,
    synced: bool = True,
) -> Manifest:
    """Writes whole tensors, by name, as the schema orders them; -0.0 is written as 0.0.

    Arrays have the storage type of their tensor: BF16 as uint16, BOOL as uint8 or bool.

    Raises:
        LocalError: a tensor is missing, or has another type or shape than schema says.
        StoreError: the disk is full or failing, or path exists.
    """
    if extra := sorted(set(arrays) - {tensor.name for tensor in schema.tensors}):
        raise LocalError(f"tensor {extra[0]!r} is not in the schema")
    with ArtifactWriter(path, kind, schema) as writer:
        for tensor in schema.tensors:
            if tensor.name not in arrays:
                raise LocalError(f"tensor {tensor.name!r} is missing")
            array = np.asarray(arrays[tensor.name])
            if tensor.dtype == "BOOL" and array.dtype == np.bool_:
                array = array.view(np.uint8)
            if array.dtype != FORMATS[tensor.dtype].storage or array.shape != tensor.shape:
                raise LocalError(
                    f"tensor {tensor.name!r} is {array.dtype} {list(array.shape)}, "
                    f"the schema says {tensor.dtype} {list(tensor.shape)}"
                )
            writer.write(canonical_zero(array, tensor.dtype))
        return writer.finish(synced=synced)
