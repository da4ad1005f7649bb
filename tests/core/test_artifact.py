from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from p2pd.core.artifact import (
    CHUNK_BYTES,
    MAX_ARTIFACT_BYTES,
    ArtifactKind,
    Manifest,
    chunk_count,
    manifest_of,
)
from p2pd.core.encoding import decode, encode
from p2pd.errors import RemoteError

SCHEMA = bytes(32)


def made(data: bytes) -> Manifest:
    return manifest_of(ArtifactKind.UPDATE, SCHEMA, data)


@pytest.mark.parametrize(
    ("size", "chunks"),
    [(0, []), (1, [1]), (CHUNK_BYTES, [CHUNK_BYTES]), (CHUNK_BYTES + 1, [CHUNK_BYTES, 1])],
)
def test_an_artifact_is_cut_into_chunks_of_which_the_last_may_be_short(
    size: int, chunks: list[int]
) -> None:
    data = bytes(n % 251 for n in range(size))
    manifest = made(data)
    assert [manifest.chunk_bytes(n) for n in range(len(manifest.chunks))] == chunks
    assert chunk_count(size) == len(chunks)
    start = 0
    for length, digest in zip(chunks, manifest.chunks, strict=True):
        assert sha256(data[start : start + length]).digest() == digest
        start += length
    assert made(memoryview(data).tobytes()) == manifest


def test_i04_everything_in_a_manifest_is_in_the_id() -> None:
    sound = made(b"abc")
    others = [
        made(b"abd"),
        made(b"abcd"),
        replace(sound, kind=ArtifactKind.HEAD),
        replace(sound, schema=b"s" * 32),
        replace(sound, size_bytes=2),
        replace(sound, owner=b"o" * 32),
    ]
    assert len({one.id for one in [sound, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": b"short"}, "32 bytes"),
        ({"chunks": (b"short",)}, "32 bytes"),
        ({"size_bytes": -1}, "artifact of -1 bytes"),
        ({"size_bytes": MAX_ARTIFACT_BYTES + 1}, "artifact of"),
        ({"size_bytes": CHUNK_BYTES + 1}, "1 chunks do not hold"),
        ({"size_bytes": 0}, "1 chunks do not hold 0 bytes"),
        ({"chunks": ()}, "0 chunks do not hold"),
        ({"owner": b"short"}, "an owner is a peer id"),
        ({"chunks": (bytes(32),) * 2}, "2 chunks do not hold"),
    ],
)
def test_i08_a_manifest_that_contradicts_itself_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    sound = made(b"abc")
    with pytest.raises(ValueError, match=words):
        replace(sound, **changes)
    fields = [sound.kind, sound.schema, sound.size_bytes, sound.chunks, sound.owner]
    names = ["kind", "schema", "size_bytes", "chunks", "owner"]
    for name, value in changes.items():
        fields[names.index(name)] = value
    with pytest.raises(RemoteError, match=f"Manifest: .*{words}"):
        decode(Manifest, encode(fields))
