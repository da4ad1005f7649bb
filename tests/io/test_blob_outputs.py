"""Files that subprocesses write into the store, files that they read, and what is kept for good."""

import os
from pathlib import Path

import pytest
import trio

from p2pd.config.node import StoreSettings
from p2pd.errors import NoRoomError, StoreError
from p2pd.io.files import ArtifactFiles
from tests.io.blob_bench import Bench, content, described, run


def test_outputs_differ_lie_in_the_directory_and_are_gone_unless_adopted(bench: Bench) -> None:
    files: ArtifactFiles = bench.store
    data = content(1)

    async def write() -> None:
        async with files.output(".x", len(data)) as first, files.output(".x", 10) as second:
            assert first != second
            assert {first.parent, second.parent} == {bench.directory}
            assert first.suffix == ".x"
            await trio.Path(first).write_bytes(data)
            await trio.Path(second).write_bytes(data)
            await files.adopt(first, described(data))

    run(write)
    artifact = described(data).id
    assert bench.names() == [artifact.hex(), f"{artifact.hex()}.manifest"]


def test_room_for_an_output_is_made_before_it_is_written_and_promised_until_then(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=3000, reserve_bytes=500), 4000)
    old = bench.put(content(1, 1000))
    bench.store.pin(bench.put(content(2, 1000)), "chain")

    async def write() -> None:
        async with bench.store.output("", 1500) as path:
            assert not bench.store.has(old)
            with pytest.raises(NoRoomError, match=r"501 bytes lacking: raise store\.quota_bytes"):
                await bench.store.begin(described(content(3, 1001)))
            bench.free_bytes = 2400
            with pytest.raises(NoRoomError, match="free some disk space"):
                await bench.store.begin(described(content(3, 500)))
            await trio.Path(path).write_bytes(bytes(1000))  # of which the disk knows already
            bench.free_bytes = 1500
            await bench.store.begin(described(content(3, 500)))
        with pytest.raises(NoRoomError, match="no room for tmp-file"):
            async with bench.store.output("", 1501):
                raise AssertionError("there was no room")

    run(write)


def test_a_refusal_is_told_and_that_as_much_finds_room_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=0, reserve_bytes=0), 1000)
    bench.put(content(1, 100))
    with pytest.raises(NoRoomError) as refused:
        bench.put(content(2, 2000))
    bench.put(content(3, 100))  # finds room, and that says nothing of what is larger
    assert bench.room == [str(refused.value)]
    bench.free_bytes = 3000
    bench.put(content(2, 2000))
    bench.put(content(4, 100))
    assert bench.room == [str(refused.value), ""]


def test_a_download_that_ends_after_all_says_that_there_is_room_again(tmp_path: Path) -> None:
    data = content(1)
    reserve = StoreSettings(quota_bytes=0, reserve_bytes=1000)
    bench = Bench(tmp_path / "blobs", reserve, len(data) + 1000)
    artifact = bench.begin(data)
    bench.free_bytes = 1500  # somebody else filled the disk
    with pytest.raises(NoRoomError) as refused:
        bench.write(artifact, data, 0)
    assert bench.room == [str(refused.value)]
    bench.free_bytes = 10**9
    bench.write(artifact, data, 0, 1, 2)
    assert bench.room == [str(refused.value), ""]


def test_i10_bytes_that_changed_on_disk_are_found_before_they_are_used(bench: Bench) -> None:
    data = content(1)
    artifact = bench.put(data)
    path = run(bench.store.sound, artifact)
    assert path == bench.store.path(artifact)
    path.write_bytes(data[:-1] + b"!")
    assert not run(bench.store.check, artifact)
    assert not bench.store.has(artifact)
    assert [item[0] for item in bench.damage] == [artifact]
    with pytest.raises(StoreError, match="is not in"):
        run(bench.store.sound, artifact)
    bench.begin(data)
    bench.write(artifact, data, 0, 1, 2)
    assert run(bench.store.check, artifact)


def test_i10_bytes_that_changed_while_nobody_ran_are_found_though_size_and_time_are_right(
    bench: Bench,
) -> None:
    data = content(1)
    artifact = bench.put(data)
    path = bench.store.path(artifact)
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(len(data) - 1)
        file.write(bytes([data[-1] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    bench.open()
    assert bench.store.has(artifact)
    assert not run(bench.store.check, artifact)
    assert not bench.store.has(artifact)


def test_what_was_looked_at_is_not_hashed_again(bench: Bench) -> None:
    data = content(1)
    artifact = bench.put(data)
    bench.open()
    assert run(bench.store.check, artifact)
    path = bench.store.path(artifact)
    status = path.stat()
    with path.open("r+b") as file:  # nobody can see this without reading it all
        file.write(bytes([data[0] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run(bench.store.check, artifact)


def test_a_file_that_may_not_be_read_is_named_and_not_taken_for_damaged(bench: Bench) -> None:
    artifact = bench.put(content(1))
    bench.store.path(artifact).unlink()
    bench.store.path(artifact).mkdir()
    with pytest.raises(StoreError, match=f"{artifact.hex()}: it is a directory"):
        run(bench.store.check, artifact)
    assert bench.store.has(artifact)


def test_what_is_kept_for_good_stays_over_restarts_until_its_mark_is_removed(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=2000, reserve_bytes=0))
    kept, loose = bench.put(content(1, 1000)), bench.put(content(2, 1000))
    run(bench.store.keep, kept)
    bench.put(content(3, 1000))
    assert (bench.store.has(kept), bench.store.has(loose)) == (True, False)
    bench.open()
    bench.put(content(4, 1000))
    assert bench.store.has(kept)
    (bench.directory / f"{kept.hex()}.keep").unlink()
    bench.open()
    bench.put(content(5, 1000))
    bench.put(content(6, 1000))
    assert not bench.store.has(kept)


def test_an_artifact_may_be_kept_before_it_is_here(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=1000, reserve_bytes=0))
    run(bench.store.keep, described(content(1, 1000)).id)
    bench.open()
    bench.put(content(1, 1000))
    with pytest.raises(NoRoomError):
        bench.put(content(2, 1000))
