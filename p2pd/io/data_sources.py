"""Where files of data sets come from besides peers: a directory, HTTP(S), what fsspec opens, a list of files.

Reading blocks, and so runs in threads, with a deadline for each chunk. Seconds, bytes.
"""

import importlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast
from urllib.parse import urljoin

import trio

from p2pd.config.names import WEB_SCHEMES, check_source, check_url
from p2pd.core.artifact import CHUNK_BYTES, Manifest
from p2pd.errors import RemoteError, UnreachableError, UsageError, advice, printable
from p2pd.io.durable import open_file
from p2pd.io.http_files import below, open_url
from p2pd.io.listing import LIST_BYTES_MOST, Listed, parse_listing
from p2pd.ports import DataSource, Reading

THREADS = 8
"""Of one source. A thread that hangs takes its place until the deadline of its socket."""
CLOSE_S = 1.0
"""How long the end of a reading may take: it first ends what another thread reads."""
LIST_SUFFIX = ".json"

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class Stream(Protocol):
    def read(self, size: int, /) -> bytes:
        """Up to so many bytes; none at the end."""
        ...

    def close(self) -> None: ...


Open = Callable[[str, Manifest | None, int], Stream]
"""A file by its name, what it must be, the byte to begin with. Raises OSError, UnreachableError, RemoteError."""


@dataclass(frozen=True, slots=True)
class ThreadedSource:
    """Implements the port DataSource."""

    name: str
    open: Open
    patience_s: float
    """A chunk may take so long."""
    limiter: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(THREADS))

    @asynccontextmanager
    async def read(
        self, file: str, manifest: Manifest | None, chunk: int
    ) -> AsyncIterator[Reading]:
        opening = _Opening(self.open)
        try:
            stream = await self.blocking(opening.run, file, manifest, chunk * CHUNK_BYTES)
        except BaseException:
            opening.over = True
            raise
        try:
            yield _Chunks(self, stream)
        finally:
            with trio.move_on_after(CLOSE_S, shield=True), suppress(OSError):
                await trio.to_thread.run_sync(stream.close, abandon_on_cancel=True)

    async def blocking(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        try:
            with trio.fail_after(self.patience_s):
                return await trio.to_thread.run_sync(
                    function, *arguments, limiter=self.limiter, abandon_on_cancel=True
                )
        except trio.TooSlowError as error:
            raise UnreachableError(
                f"{self.name}: gave less than a chunk in {self.patience_s:g} s (data.source_s)"
            ) from error
        except OSError as error:
            raise UnreachableError(f"{self.name}: {advice(error)}") from error


@dataclass(slots=True)
class _Opening:
    open: Open
    over: bool = False
    """Nobody waits for it any more."""

    def run(self, file: str, manifest: Manifest | None, start: int) -> Stream:
        stream = self.open(file, manifest, start)
        if self.over:
            stream.close()
        return stream


@dataclass(frozen=True, slots=True)
class _Chunks:
    source: ThreadedSource
    stream: Stream

    async def next(self) -> bytes:
        return await self.source.blocking(_chunk, self.stream)


def _chunk(stream: Stream) -> bytes:
    data = b""
    while len(data) < CHUNK_BYTES and (more := stream.read(CHUNK_BYTES - len(data))):
        data += more
    return data


def open_sources(names: Sequence[str], patience_s: float) -> tuple[DataSource, ...]:
    """
    Raises:
        UsageError: one of them is no source, or needs a package that is not installed.
    """
    return tuple(ThreadedSource(name, _opener(name, patience_s), patience_s) for name in names)


def _opener(name: str, patience_s: float) -> Open:
    check_source(name)
    scheme, separator, _ = name.partition("://")
    if separator and scheme in WEB_SCHEMES:
        if name.partition("?")[0].endswith(LIST_SUFFIX):
            return _ListedFiles(name, patience_s).open
        return lambda file, manifest, start: open_url(
            below(name, file), _size(manifest), start, patience_s
        )
    if separator:
        return _fsspec_opener(name)
    path = Path(name)
    if path.suffix == LIST_SUFFIX:
        return _ListedFiles(name, patience_s).open
    return lambda file, manifest, start: _open_path(path / file, start)


def _size(manifest: Manifest | None) -> int | None:
    return None if manifest is None else manifest.size_bytes


def _open_path(path: Path, start: int) -> Stream:
    file = open_file(path)
    file.seek(start)
    return file


class _ListedFiles:
    """Files that a list names, which is read when the first one is wanted."""

    def __init__(self, name: str, patience_s: float) -> None:
        self._name = name
        self._patience_s = patience_s
        self._listed: dict[str, Listed] | None = None

    def open(self, file: str, manifest: Manifest | None, start: int) -> Stream:
        if self._listed is None:
            self._listed = dict(parse_listing(self._read_list()))
        one = self._listed.get(file)
        if one is None:
            raise UnreachableError(f"{self._name}: lists no {file}")
        if manifest is not None:
            self._compare(one, manifest)
        if "://" not in self._name and not one.url:
            return _open_path(Path(self._name).parent / one.path, start)
        url = urljoin(self._name, one.url or one.path)
        try:
            check_url(url)
        except UsageError as error:
            raise RemoteError(
                f"{self._name}: lists {file} at {url!r:.200}, which is no URL"
            ) from error
        return open_url(url, _size(manifest), start, self._patience_s)

    def _compare(self, one: Listed, manifest: Manifest) -> None:
        """What the list says is compared before anything is fetched. The hash of a small file is its chunk's."""
        whole = manifest.chunks[0].hex() if len(manifest.chunks) == 1 else ""
        other_hash = bool(whole and one.sha256) and whole != one.sha256
        if one.size_bytes not in (None, manifest.size_bytes) or other_hash:
            raise RemoteError(f"{self._name}: lists another {one.name} than the data set names")

    def _read_list(self) -> bytes:
        if "://" in self._name:
            stream: Stream = open_url(self._name, None, 0, self._patience_s)
        else:
            stream = _open_path(Path(self._name), 0)
        try:
            data = b""
            while len(data) <= LIST_BYTES_MOST and (more := stream.read(CHUNK_BYTES)):
                data += more
        finally:
            stream.close()
        return data


def _fsspec_opener(name: str) -> Open:
    if find_spec("fsspec") is None:
        raise UsageError(
            f"data.sources: {name!r:.200} needs fsspec: pip install 'p2pd-fleet[data]', and what fsspec"
            " needs for it"
        )

    def open_it(file: str, manifest: Manifest | None, start: int) -> Stream:
        # Takes a while to import, and has protocols of its own that do: in a thread.
        fsspec: Any = importlib.import_module("fsspec")
        try:
            stream = fsspec.open(f"{name.rstrip('/')}/{file}", "rb").open()
            stream.seek(start)
        except OSError:
            raise
        except Exception as error:
            raise UnreachableError(f"{name}: {printable(str(error))[:300]}") from error
        return cast("Stream", stream)

    return open_it
