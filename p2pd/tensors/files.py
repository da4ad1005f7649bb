"""Artifacts as files: memory-mapped reading, streamed writing with the manifest made on the way."""

import mmap
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import TracebackType

import numpy as np

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.codecs import element_count
from p2pd.core.ids import ArtifactId, short
from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import LocalError, RemoteError, StoreError, advice
from p2pd.tensors.crew import Crew
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

WRITEBACK_CHUNKS = 4
PART_ELEMENTS = 2**16
"""Of a whole tensor, made canonical at a time."""
PIECES_MOST = 1024
"""In one call. Source: IOV_MAX of Linux and macOS."""


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
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._flat = tuple(map(partial(_flat, mapped), self.tensors, self.layout.starts))

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return self.layout.tensors

    def require(self, schema: Schema) -> None:
        """Raises RemoteError, naming the first tensor that is not as schema says."""
        if (found := difference(self.tensors, schema)) is not None:
            raise RemoteError(found)

    def stored(self, index: int, span: slice | None = None) -> Stored:
        """Elements of one tensor as they lie in the file: a flat, read-only view, no copy."""
        flat = self._flat[index]
        return flat if span is None else flat[span]

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


def open_artifact(
    paths: Mapping[ArtifactId, Path], artifact: ArtifactId, schema: Schema
) -> TensorFile:
    """Of the files of a job, one that must be of a schema.

    Raises:
        RemoteError: not canonical, or not of that schema; it is named.
        StoreError: it cannot be read.
        LocalError: paths does not name it.
    """
    if artifact not in paths:
        raise LocalError(f"no file was named for artifact {short(artifact)}")
    try:
        file = TensorFile(paths[artifact])
        file.require(schema)
    except RemoteError as error:
        raise RemoteError(f"artifact {short(artifact)}: {error}") from error
    return file


def _flat(mapped: mmap.mmap, tensor: TensorSpec, start: int) -> Stored:
    storage, count = FORMATS[tensor.dtype].storage, element_count(tensor)
    # numpy refuses to view nothing at the end of a file.
    return np.frombuffer(mapped, storage, count, start) if count else np.empty(0, storage)


class ArtifactWriter:
    """Writes one artifact, front to back, a chunk of it at a time; unlinks what is not finished.

    Each chunk is hashed as it is written; with a crew, several at once.
    """

    def __init__(
        self, path: Path, kind: ArtifactKind, schema: Schema, crew: Crew | None = None
    ) -> None:
        self._path = path
        self._kind = kind
        self._schema = schema
        self._crew = crew or Crew()
        self._layout = layout_of(schema.tensors)
        self._taken_bytes = 0
        self._pieces: list[memoryview] = []
        """Of the chunk that is not whole yet."""
        self._chunks: list[Future[bytes]] = []
        self._finished = False
        with _storing(path):
            self._file = path.open("xb", buffering=0)

    def __enter__(self) -> "ArtifactWriter":
        with ExitStack() as stack:
            # A header of many tensors is written here, and the disk may be full.
            stack.push(self.__exit__)
            self._take(memoryview(self._layout.header))
            stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Nobody may write any more when the descriptor is free for other files.
        wait([chunk for chunk in self._chunks if not chunk.cancel()])
        self._file.close()
        if not self._finished:
            self._path.unlink(missing_ok=True)

    def write(self, elements: Stored) -> None:
        """Adds the next elements, in order of name; they must be in the type that the file holds.

        They are not copied, and must stay as they are until the end.

        Raises:
            StoreError: the disk is full or failing; with a crew, a later write or finish() says so.
        """
        self._take(memoryview(np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data))

    def finish(self, *, synced: bool = True) -> Manifest:
        """Puts all of it on stable storage, if it is to last."""
        if self._taken_bytes != self._layout.size_bytes:
            raise LocalError(
                f"{self._path}: wrote {self._taken_bytes} of {self._layout.size_bytes} bytes"
            )
        if self._pieces:
            self._hand_over()
        digests = tuple(chunk.result() for chunk in self._chunks)
        if synced:
            with _storing(self._path):
                os.fsync(self._file.fileno())
        self._finished = True
        return Manifest(self._kind, self._schema.id, self._taken_bytes, digests)

    def _take(self, data: memoryview) -> None:
        while data:
            part = data[: CHUNK_BYTES - self._taken_bytes % CHUNK_BYTES]
            self._pieces.append(part)
            self._taken_bytes += len(part)
            if self._taken_bytes % CHUNK_BYTES == 0:
                self._hand_over()
            data = data[len(part) :]

    def _hand_over(self) -> None:
        chunk = len(self._chunks), self._pieces
        self._pieces = []
        self._chunks.append(self._crew.later(self._store, chunk))

    def _store(self, chunk: tuple[int, list[memoryview]]) -> bytes:
        """Writes a chunk, by its number, in its place; the digest comes back."""
        number, pieces = chunk
        digest = sha256()
        for piece in pieces:
            digest.update(piece)
        with _storing(self._path):
            _write_at(self._file.fileno(), pieces, number * CHUNK_BYTES)
            self._begin_writeback(number + 1)
        return digest.digest()

    def _begin_writeback(self, chunks: int) -> None:
        """So that little is left for the sync at the end. Pages that are being written stay in memory.

        Source: posix_fadvise(2); Linux starts to write what is dirty of a range that is not needed.
        """
        if sys.platform == "linux" and chunks % WRITEBACK_CHUNKS == 0:
            place = (chunks - WRITEBACK_CHUNKS) * CHUNK_BYTES, WRITEBACK_CHUNKS * CHUNK_BYTES
            os.posix_fadvise(self._file.fileno(), *place, os.POSIX_FADV_DONTNEED)


def _write_at(descriptor: int, pieces: Iterable[memoryview], offset: int) -> None:
    left = deque(pieces)
    while left:
        written = os.pwritev(descriptor, list(islice(left, PIECES_MOST)), offset)
        offset += written
        while left and written >= len(left[0]):
            written -= len(left.popleft())
        if written:
            left[0] = left[0][written:]


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
            # The copies live as long as the chunk that they are part of: small ones do no harm.
            flat = np.ascontiguousarray(array).reshape(-1)
            for start in range(0, flat.size, PART_ELEMENTS):
                part = flat[start : start + PART_ELEMENTS]
                writer.write(canonical_zero(part, tensor.dtype))
        return writer.finish(synced=synced)
