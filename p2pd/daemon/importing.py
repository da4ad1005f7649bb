"""The genesis head of a revision, from the file that was published beside its record."""

import logging
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.ids import short
from p2pd.core.revision import Revision
from p2pd.daemon.publish import head_file_of
from p2pd.errors import NoRoomError, UsageError
from p2pd.io.blobs import FileBlobStore
from p2pd.io.durable import open_file, storing

log = logging.getLogger("p2pd.daemon")


async def import_head(record: Path, revision: Revision, blobs: FileBlobStore) -> None:
    """Takes the genesis head from beside the record, if it lies there and there is room for it."""
    path = head_file_of(record)
    if blobs.has(revision.head) or not path.exists():
        return
    with storing(path), open_file(path) as file:
        manifest = await trio.to_thread.run_sync(_manifest_of, file, revision.schema.id)
        if manifest.id != revision.head:
            raise UsageError(
                f"{path}: not the genesis head that {record} names: bring the one that came with it"
            )
        blobs.pin(revision.head, "import")
        try:
            await _copy_in(blobs, manifest, file)
        except NoRoomError:  # the store has said so; a chain that has left it behind goes on
            log.warning("%s is not imported: it is fetched from others if it is needed", path)
            return
    log.info("imported the genesis head %s", short(revision.head))


async def _copy_in(blobs: FileBlobStore, manifest: Manifest, file: BinaryIO) -> None:
    artifact = await blobs.begin(manifest)
    file.seek(0)
    for index in range(len(manifest.chunks)):
        chunk = await trio.to_thread.run_sync(file.read, CHUNK_BYTES)
        await blobs.write(artifact, index, chunk)
    await blobs.settle(artifact)


def _manifest_of(file: BinaryIO, schema: bytes) -> Manifest:
    chunks, size_bytes = [], 0
    while chunk := file.read(CHUNK_BYTES):
        chunks.append(sha256(chunk).digest())
        size_bytes += len(chunk)
    return Manifest(ArtifactKind.HEAD, schema, size_bytes, tuple(chunks))
