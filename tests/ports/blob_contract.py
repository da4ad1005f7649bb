"""What each implementation of port BlobStore does. Every function takes an empty store."""

import pytest

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, manifest_of
from p2pd.errors import RemoteError
from p2pd.ports import BlobStore

SCHEMA = bytes(32)
DATA = bytes(range(256)) * 4096 * 2 + b"the end"
"""Two whole chunks and a short one, the first two equal."""


def manifest_and_chunks(data: bytes = DATA) -> tuple[Manifest, list[bytes]]:
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    return manifest_of(ArtifactKind.UPDATE, SCHEMA, data), chunks


async def an_artifact_is_put_and_read_in_chunks(blobs: BlobStore) -> None:
    manifest, chunks = manifest_and_chunks()
    assert not blobs.has(manifest.id)
    assert blobs.manifest(manifest.id) is None
    assert await blobs.put(ArtifactKind.UPDATE, SCHEMA, DATA) == manifest.id
    assert blobs.has(manifest.id)
    assert blobs.manifest(manifest.id) == manifest
    assert [await blobs.read(manifest.id, n) for n in range(len(chunks))] == chunks
    assert blobs.missing(manifest.id) == ()


async def an_artifact_comes_in_chunks_in_any_order(blobs: BlobStore) -> None:
    manifest, chunks = manifest_and_chunks()
    artifact = await blobs.begin(manifest)
    assert artifact == manifest.id
    assert blobs.missing(artifact) == (0, 1, 2)
    await blobs.write(artifact, 2, chunks[2])
    assert blobs.missing(artifact) == (0, 1)
    assert await blobs.begin(manifest) == artifact  # keeps what is there
    assert blobs.missing(artifact) == (0, 1)
    assert await blobs.read(artifact, 2) == chunks[2]
    assert await blobs.read(artifact, 0) is None
    assert not blobs.has(artifact)
    for index in (1, 0):
        await blobs.write(artifact, index, chunks[index])
    assert blobs.has(artifact)
    assert blobs.missing(artifact) == ()
    assert await blobs.read(artifact, 0) == chunks[0]


async def what_was_fetched_whole_is_kept_only_if_it_is_what_it_is_called(blobs: BlobStore) -> None:
    data, owner = b"steps", bytes(32)
    artifact = manifest_of(ArtifactKind.UPDATE, SCHEMA, data, owner).id
    for kind, said, by in (
        (ArtifactKind.UPDATE, b"lies!", owner),
        (ArtifactKind.HEAD, data, owner),
        (ArtifactKind.UPDATE, data, b""),
    ):
        assert not await blobs.put_fetched(artifact, kind, SCHEMA, said, by)
    assert blobs.manifest(artifact) is None
    for _ in range(2):
        assert await blobs.put_fetched(artifact, ArtifactKind.UPDATE, SCHEMA, data, owner)
    assert blobs.has(artifact)
    assert await blobs.read(artifact, 0) == data
    begun = manifest_of(ArtifactKind.HEAD, SCHEMA, data)
    await blobs.begin(begun)
    assert await blobs.put_fetched(begun.id, ArtifactKind.HEAD, SCHEMA, data, b"")
    assert blobs.has(begun.id)
    assert blobs.missing(begun.id) == ()


async def bytes_that_are_not_the_chunk_are_refused(blobs: BlobStore) -> None:
    manifest, chunks = manifest_and_chunks()
    artifact = await blobs.begin(manifest)
    for index, data in ((0, b"lies"), (0, chunks[2]), (2, chunks[0]), (3, chunks[0]), (0, b"")):
        with pytest.raises(RemoteError):
            await blobs.write(artifact, index, data)
    assert blobs.missing(artifact) == (0, 1, 2)


async def an_empty_artifact_is_complete_at_once(blobs: BlobStore) -> None:
    manifest, _ = manifest_and_chunks(b"")
    artifact = await blobs.begin(manifest)
    assert blobs.has(artifact)
    assert blobs.missing(artifact) == ()


async def a_chunk_out_of_range_is_not_here(blobs: BlobStore) -> None:
    artifact = await blobs.put(ArtifactKind.UPDATE, SCHEMA, b"small")
    assert await blobs.read(artifact, 0) == b"small"
    assert await blobs.read(artifact, 1) is None
    assert await blobs.read(artifact, -1) is None


async def only_what_nobody_has_pinned_is_dropped(blobs: BlobStore) -> None:
    first = await blobs.put(ArtifactKind.UPDATE, SCHEMA, b"first")
    second = await blobs.put(ArtifactKind.UPDATE, SCHEMA, b"second")
    manifest, _ = manifest_and_chunks()
    assert [one.id for one in blobs.held(ArtifactKind.UPDATE)] == [first, second]
    assert blobs.held(ArtifactKind.HEAD) == ()
    blobs.touch(first)
    assert [one.id for one in blobs.held(ArtifactKind.UPDATE)] == [second, first]
    blobs.touch(manifest.id)  # not here: nothing happens
    blobs.pin(first, "somebody")
    assert [await blobs.drop(one) for one in (first, second, second)] == [False, True, False]
    assert (blobs.has(first), blobs.has(second), blobs.manifest(second)) == (True, False, None)
    assert await blobs.read(second, 0) is None
    await blobs.begin(manifest)
    assert manifest in blobs.held(ArtifactKind.UPDATE)
    assert await blobs.drop(manifest.id)
    assert blobs.manifest(manifest.id) is None


CONTRACT = (
    only_what_nobody_has_pinned_is_dropped,
    an_artifact_is_put_and_read_in_chunks,
    an_artifact_comes_in_chunks_in_any_order,
    bytes_that_are_not_the_chunk_are_refused,
    what_was_fetched_whole_is_kept_only_if_it_is_what_it_is_called,
    an_empty_artifact_is_complete_at_once,
    a_chunk_out_of_range_is_not_here,
)
