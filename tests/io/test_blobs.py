import os
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest
from p2pd.core.ids import ArtifactId
from p2pd.errors import LocalError, RemoteError, StoreError
from p2pd.io.blob_files import MAX_MANIFEST_BYTES
from p2pd.ports import BlobStore
from tests.io.blob_bench import SCHEMA, Bench, chunk, content, described, run
from tests.ports.blob_contract import CONTRACT

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="finds the names of open files the Linux way"
)


@pytest.mark.parametrize("clause", CONTRACT)
def test_the_blob_store_keeps_the_contract(
    bench: Bench, clause: Callable[[BlobStore], Awaitable[None]]
) -> None:
    run(clause, bench.store)


@pytest.mark.parametrize("size_bytes", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES])
def test_what_is_put_is_read_back_by_chunks_also_after_a_restart(
    bench: Bench, size_bytes: int
) -> None:
    data = content(1, size_bytes)
    artifact = bench.put(data)
    for _ in range(2):
        assert artifact == described(data).id
        assert bench.store.has(artifact)
        assert bench.store.missing(artifact) == ()
        assert bench.store.manifest(artifact) == described(data)
        assert bench.store.path(artifact).read_bytes() == data
        count = len(described(data).chunks)
        chunks = [bench.read(artifact, index) for index in range(count)]
        assert b"".join(part or b"?" for part in chunks) == data
        assert bench.read(artifact, count) is None
        assert bench.read(artifact, -1) is None
        bench.open()
    assert bench.damage == []


def test_chunks_may_come_in_any_order_and_the_last_one_completes(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)
    assert bench.store.missing(artifact) == (0, 1, 2)
    bench.write(artifact, data, 2, 0)
    assert bench.store.missing(artifact) == (1,)
    assert not bench.store.has(artifact)
    assert bench.read(artifact, 2) == chunk(data, 2)
    assert bench.read(artifact, 1) is None
    with pytest.raises(StoreError, match=r"is not in .*blobs"):
        bench.store.path(artifact)
    bench.write(artifact, data, 1)
    assert bench.store.has(artifact)
    assert bench.store.path(artifact).read_bytes() == data
    assert bench.names() == [artifact.hex(), f"{artifact.hex()}.manifest"]


def test_an_empty_artifact_is_complete_once_begun(bench: Bench) -> None:
    assert bench.store.has(bench.begin(b""))


def test_bytes_that_are_not_the_chunk_are_refused_and_leave_nothing(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)
    for index, wrong in ((0, chunk(data, 1)), (0, b""), (3, b""), (-1, chunk(data, 2))):
        with pytest.raises(RemoteError, match="chunk"):
            run(bench.store.write, artifact, index, wrong)
    assert bench.store.missing(artifact) == (0, 1, 2)
    assert bench.read(artifact, 0) is None


def test_the_same_chunks_from_several_providers_at_once_complete_it_once(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for index in (0, 1, 2) * 4:
                nursery.start_soon(bench.store.write, artifact, index, chunk(data, index))

    run(main)
    assert bench.store.path(artifact).read_bytes() == data


def test_a_finished_file_is_adopted_by_a_rename(bench: Bench) -> None:
    data = content(1)
    path = bench.directory / "tmp-file"
    path.write_bytes(data)
    node = path.stat().st_ino
    artifact = run(bench.store.adopt, path, described(data))
    assert bench.store.path(artifact).stat().st_ino == node
    assert not path.exists()
    bench.open()
    run(bench.store.verify, artifact)


def test_an_adopted_file_ends_a_download_of_the_same_artifact(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)
    bench.write(artifact, data, 0)
    path = bench.directory / "tmp-file"
    path.write_bytes(data)
    assert run(bench.store.adopt, path, described(data)) == artifact
    bench.write(artifact, data, 1)
    assert bench.store.path(artifact).read_bytes() == data
    assert bench.names() == [artifact.hex(), f"{artifact.hex()}.manifest"]


def test_a_file_of_another_size_or_elsewhere_is_not_adopted(bench: Bench, tmp_path: Path) -> None:
    data = content(1)
    short, link, outside = bench.directory / "short", bench.directory / "link", tmp_path / "file"
    short.write_bytes(data[:-1])
    outside.write_bytes(data)
    link.symlink_to(outside)
    for path in (short, link):
        with pytest.raises(StoreError, match=f"not a file of {len(data)} bytes"):
            run(bench.store.adopt, path, described(data))
        assert path.exists()
    with pytest.raises(LocalError, match="would not be atomic"):
        run(bench.store.adopt, outside, described(data))


def test_writing_without_begin_is_refused(bench: Bench) -> None:
    data = content(1)
    with pytest.raises(StoreError, match="begin it first"):
        bench.write(described(data).id, data, 0)
    with pytest.raises(LocalError, match="was not begun"):
        bench.store.missing(described(data).id)


def test_a_cancelled_last_chunk_still_leaves_a_store_that_can_finish(bench: Bench) -> None:
    data = content(1)
    artifact = bench.begin(data)
    bench.write(artifact, data, 0, 1)

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.store.write, artifact, 2, chunk(data, 2))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()

    run(main)
    assert bench.store.has(artifact)


def test_a_chunk_read_while_its_artifact_is_being_renamed_is_not_called_damaged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content(1)
    artifact = bench.begin(data)
    for index in (0, 1):
        bench.write(artifact, data, index)
    renamed, go_on = threading.Event(), threading.Event()
    finish, read_chunk = bench.store._files.finish, bench.store._files.read_chunk

    def slow_finish(one: ArtifactId, synced: bool) -> None:
        finish(one, synced)
        renamed.set()
        assert go_on.wait(10)

    def read_after_rename(path: Path, manifest: Manifest, index: int) -> bytes | None:
        assert renamed.wait(10)
        return read_chunk(path, manifest, index)

    monkeypatch.setattr(bench.store._files, "finish", slow_finish)
    monkeypatch.setattr(bench.store._files, "read_chunk", read_after_rename)
    found: list[bytes | None] = []

    async def main() -> None:
        turn = bench.store._entries[artifact].turn

        async def read() -> None:
            found.append(await bench.store.read(artifact, 0))

        async def let_finish() -> None:
            while not found and not turn.statistics().tasks_waiting:
                await trio.lowlevel.checkpoint()
            go_on.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(bench.store.write, artifact, 2, chunk(data, 2))
            nursery.start_soon(let_finish)

    run(main)
    assert found == [chunk(data, 0)]
    assert bench.damage == []


def test_i12_hashing_and_files_stay_off_the_loop(bench: Bench) -> None:
    data = content(1)
    artifact = bench.put(data)
    loop = threading.get_ident()
    used: set[int] = set()
    original = bench.store._files.read_chunk

    def recorded(path: Path, manifest: Manifest, index: int) -> bytes | None:
        used.add(threading.get_ident())
        return original(path, manifest, index)

    bench.store._files.read_chunk = recorded  # type: ignore[method-assign]  # where does it run?
    bench.read(artifact, 0)
    assert used
    assert loop not in used


def test_the_directory_is_private(bench: Bench) -> None:
    assert stat.S_IMODE(bench.directory.stat().st_mode) == 0o700


def test_the_largest_manifest_can_be_read_back() -> None:
    assert 35 * (2**40 // CHUNK_BYTES) < MAX_MANIFEST_BYTES


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are put on stable storage from now on."""
    names: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return names


@linux_only
def test_i10_what_is_made_here_is_on_stable_storage_and_what_is_fetched_once_it_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = synced(monkeypatch)
    data = content(1)
    artifact = bench.begin(data)
    bench.write(artifact, data, 0, 1, 2)
    assert names == []
    run(bench.store.keep, artifact)
    assert {artifact.hex(), f"{artifact.hex()}.manifest", bench.directory.name} <= set(names)
    made, names[:] = described(b"made"), []
    for kind, lasting in ((ArtifactKind.HEAD, True), (ArtifactKind.UPDATE, False)):
        run(bench.store.put, kind, SCHEMA, b"made")
        assert bool(names) is lasting
        names.clear()
    run(bench.store.settle, made.id)
    assert names == [made.id.hex(), f"{made.id.hex()}.manifest", bench.directory.name]


@linux_only
def test_i10_what_is_to_be_kept_for_good_is_synced_as_it_comes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content(1)
    run(bench.store.keep, described(data).id)
    names = synced(monkeypatch)
    artifact = bench.begin(data)
    bench.write(artifact, data, 0, 1, 2)
    assert f"{artifact.hex()}.part" in names


def test_peers_that_ask_at_a_time_have_a_chunk_read_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = content(1)
    artifact = bench.put(data)
    read_chunk, reads = bench.store._files.read_chunk, []

    def note(path: Path, manifest: Manifest, index: int) -> bytes | None:
        reads.append(index)
        return read_chunk(path, manifest, index)

    monkeypatch.setattr(bench.store._files, "read_chunk", note)
    found: list[bytes | None] = []

    async def main() -> None:
        async def read() -> None:
            found.append(await bench.store.read(artifact, 0))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(read)

    run(main)
    assert found == [chunk(data, 0)] * 3
    assert reads == [0]
    run(bench.store.verify, artifact)  # from the disk
    assert reads == [0, 0, 1, 2]
