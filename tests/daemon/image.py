"""A data directory as kill -9 leaves it, and short real starts of a viewer on copies of it, in this process."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from p2pd.config.node import StoreSettings
from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.core.encoding import encode
from p2pd.daemon.files import read_genesis
from p2pd.daemon.given import gather
from p2pd.daemon.logs import start_logging
from p2pd.daemon.publish import head_file_of
from p2pd.daemon.render import node_toml
from p2pd.daemon.run import Departure, _run_node
from p2pd.daemon.settings import load_node
from p2pd.errors import P2pError, StoreError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.control import NotRunningError, ask
from p2pd.io.keys import create_key, load_key
from p2pd.io.lock import DataDirectory
from p2pd.wire.records import seal_revision
from tests.cli.chains import AUTHORITY, SCHEMA, Built, build_chain, tensor_bytes

HEIGHTS = 4
LIMIT_S = 30.0
HALF = manifest_of(ArtifactKind.HEAD, SCHEMA.id, tensor_bytes(99))
"""An artifact that was still coming."""


@dataclass(frozen=True, slots=True)
class Image:
    """One node's files: its data directory, and what it is given beside it."""

    root: Path

    @property
    def data_dir(self) -> Path:
        return self.root / "node"

    @property
    def config(self) -> Path:
        return self.root / "viewer.toml"

    @property
    def record(self) -> Path:
        return self.root / "r1.revision.cbor"

    def copy(self, root: Path) -> "Image":
        shutil.copytree(
            self.root, root, symlinks=True, dirs_exist_ok=True, ignore=lambda *_: {"control"}
        )
        copy = Image(root)
        copy.configure()
        return copy

    def configure(self) -> None:
        config = node_toml(
            role="viewer",
            name="viewer",
            data_dir=self.data_dir,
            genesis=self.root / "genesis.cbor",
            record=self.record,
            seeds=(),
            listen="127.0.0.1:0",
            datagram_bytes=1200,
        )
        self.config.write_text(config)


@dataclass(frozen=True, slots=True)
class Started:
    """What a start came to."""

    status: dict[str, Any] | None
    """None where it was refused."""
    error: P2pError | None
    said: tuple[str, ...]
    """Warnings and worse."""

    @property
    def chain(self) -> tuple[int, str]:
        assert self.status is not None, self.error
        revision = self.status["revisions"][0]
        return revision["height"], revision["head"]


def start(image: Image, *, copy_to: Path | None = None) -> Started:
    """Opens everything as a process does, until the node answers; then, if wanted, copies it as it runs."""
    with _logged() as said:
        try:
            status = _start(image, copy_to)
        except (P2pError, BaseExceptionGroup) as error:
            return Started(None, _leaf(error), tuple(said))
    return Started(status, None, tuple(said))


def _start(image: Image, copy_to: Path | None) -> dict[str, Any]:
    given = gather(load_node(image.config))
    with DataDirectory(given.config.node.data_dir) as directory:
        start_logging(directory.log, given.config.log)

        async def main() -> dict[str, Any]:
            with trio.fail_after(LIMIT_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_run_node, given, directory, Departure())
                    status = await _answer(directory.path)
                    if copy_to is not None:
                        image.copy(copy_to)
                    nursery.cancel_scope.cancel()
            return status

        return trio.run(main)


async def _answer(data_dir: Path) -> dict[str, Any]:
    while True:
        try:
            return await trio.to_thread.run_sync(ask, data_dir, {"call": "status"}, LIMIT_S)
        except (NotRunningError, StoreError):  # what lies there will be replaced
            await trio.sleep(0.005)


def _leaf(error: BaseException) -> P2pError:
    while isinstance(error, BaseExceptionGroup):
        assert len(error.exceptions) == 1, error
        error = error.exceptions[0]
    if not isinstance(error, P2pError):
        raise error
    return error


@contextmanager
def _logged() -> Iterator[list[str]]:
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    root = logging.getLogger()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    keep = Keep(logging.WARNING)
    root.addHandler(keep)
    try:
        yield said
    finally:
        for handler in [one for one in root.handlers if one not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        logging.raiseExceptions = raising


def make_image(root: Path) -> tuple[Image, Built]:
    """Killed while it held a chain, its heads, half of another artifact and leftovers of a crash."""
    work = root / "work"
    work.mkdir()
    built = build_chain(work, HEIGHTS)
    image = Image(work)
    image.configure()
    image.record.write_bytes(encode(seal_revision(built.setting.revision, (AUTHORITY,))))
    head_file_of(image.record).write_bytes(built.blob(built.decisions[0].head).read_bytes())
    create_key(image.data_dir / "key")
    trio.run(_fill, built)
    first = start(image, copy_to=root / "image")
    assert first.error is None, first.error
    killed = Image(root / "image")
    (killed.data_dir / "log.1").write_text("older\n")
    for directory in (killed.data_dir, killed.data_dir / "blobs"):
        (directory / "tmp-leftover").write_bytes(b"half")
    return killed, built


async def _fill(built: Built) -> None:
    settings = StoreSettings(quota_bytes=0, reserve_bytes=0)
    store = FileBlobStore(built.data_dir / "blobs", settings, on_damage=lambda *_: None)
    await store.begin(HALF)
    await store.keep(built.decisions[2].head)
    damaged = built.data_dir / "blobs" / f"{bytes(32).hex()}.damaged"
    damaged.write_bytes(b"long ago")


def peer_of(image: Image) -> str:
    return load_key(image.data_dir / "key").peer.hex()


def network_of(image: Image) -> bytes:
    return read_genesis(image.root / "genesis.cbor").genesis.network
