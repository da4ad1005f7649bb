"""A blob store whose files a crash left half done, or a disk changed."""

import os

import pytest
import trio
import trio.testing

from p2pd.core.artifact import CHUNK_BYTES
from p2pd.errors import StoreError
from tests.io.blob_bench import Bench, content, described, run


def test_i10_a_download_goes_on_after_a_crash_with_what_really_is_there(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)
    bench.write(artifact, data, 0, 1)
    part = bench.directory / f"{artifact.hex()}.part"
    with part.open("r+b") as file:  # chunk 1 did not reach the disk before the power went
        file.seek(CHUNK_BYTES + 5)
        file.write(b"\0\0\0")
    bench.open()
    assert not bench.store.has(artifact)
    assert bench.store.manifest(artifact) == described(data)
    assert bench.read(artifact, 0) is None, "nothing is served before it was looked at"
    assert bench.begin(data) == artifact
    assert bench.store.missing(artifact) == (1, 2)
    bench.write(artifact, data, 1, 2)
    assert bench.store.path(artifact).read_bytes() == data


def test_i10_a_crash_between_the_last_chunk_and_the_rename_loses_nothing(bench: Bench) -> None:
    data = content(1)
    artifact = bench.put(data)
    bench.store.path(artifact).rename(bench.directory / f"{artifact.hex()}.part")
    bench.open()
    assert not bench.store.has(artifact)
    bench.begin(data)
    assert bench.store.has(artifact)


def test_i10_leftovers_of_a_crash_are_removed_at_start_and_the_rest_is_kept(bench: Bench) -> None:
    kept = bench.put(content(1))
    gone = described(content(2)).id.hex()
    (bench.directory / "tmp-abcdefgh").write_bytes(b"half")
    (bench.directory / "tmp-file-1.safetensors").write_bytes(b"half")
    (bench.directory / f"{gone}.manifest").write_bytes(b"no payload followed")
    (bench.directory / "notes.txt").write_text("not ours")
    bench.open()
    assert bench.names() == [kept.hex(), f"{kept.hex()}.manifest", "notes.txt"]
    assert bench.damage == []


@pytest.mark.parametrize("case", ["flipped", "short", "gone"])
def test_a_damaged_chunk_is_not_here_and_is_reported_once(bench: Bench, case: str) -> None:
    data = content(1)
    artifact = bench.put(data)
    path = bench.store.path(artifact)
    if case == "flipped":
        path.write_bytes(data[: CHUNK_BYTES + 9] + b"!!!" + data[CHUNK_BYTES + 12 :])
    elif case == "short":
        os.truncate(path, CHUNK_BYTES + 9)
    else:
        path.unlink()

    async def reads() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(bench.store.read, artifact, 1)

    run(reads)
    assert bench.read(artifact, 1) is None
    assert not bench.store.has(artifact)
    assert [item[0] for item in bench.damage] == [artifact]
    assert f"{path}: chunk 1 does not match; moved to {path}.damaged" in bench.damage[0][1]
    assert not path.exists()
    bench.begin(data)
    bench.write(artifact, data, 0, 1, 2)
    assert bench.store.path(artifact).read_bytes() == data


def test_verify_names_the_file_and_the_chunk(bench: Bench) -> None:
    data = content(1)
    artifact = bench.put(data)
    run(bench.store.verify, artifact)
    path = bench.store.path(artifact)
    path.write_bytes(data[:-1] + b"!")
    with pytest.raises(StoreError, match=rf"{artifact.hex()}: chunk 2 is damaged"):
        run(bench.store.verify, artifact)
    assert len(bench.damage) == 1
    with pytest.raises(StoreError, match="is not in"):
        run(bench.store.verify, artifact)


@pytest.mark.parametrize("manifest", [b"", b"\x80", b"garbage", None])
def test_a_payload_whose_manifest_is_damaged_is_moved_aside_at_start(
    bench: Bench, manifest: bytes | None
) -> None:
    artifact, other = bench.put(content(1)), bench.put(content(2))
    path = bench.directory / f"{artifact.hex()}.manifest"
    swapped = (bench.directory / f"{other.hex()}.manifest").read_bytes()
    path.write_bytes(swapped if manifest is None else manifest)
    bench.open()
    assert [item[0] for item in bench.damage] == [artifact]
    assert not bench.store.has(artifact)
    assert bench.store.has(other)
    assert bench.names() == sorted(
        [f"{artifact.hex()}.damaged", other.hex(), f"{other.hex()}.manifest"]
    )


def test_a_payload_of_another_size_is_moved_aside_at_start(bench: Bench) -> None:
    artifact = bench.put(content(1))
    os.truncate(bench.store.path(artifact), 5)
    bench.open()
    assert [item[0] for item in bench.damage] == [artifact]
    assert not bench.store.has(artifact)


def test_a_damaged_chunk_of_a_download_is_fetched_again(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)
    bench.write(artifact, data, 0)
    (bench.directory / f"{artifact.hex()}.part").write_bytes(bytes(len(data)))
    assert bench.read(artifact, 0) is None
    assert bench.store.missing(artifact) == (0, 1, 2)
    assert [item[0] for item in bench.damage] == [artifact]
    bench.write(artifact, data, 0, 1, 2)
    assert bench.store.path(artifact).read_bytes() == data
