"""Quota, disk reserve, pins: what is removed, and what never is."""

import os
from pathlib import Path

import pytest

from p2pd.config.node import StoreSettings
from p2pd.errors import StoreError
from tests.io.blob_bench import Bench, content, described, run


def test_the_oldest_unpinned_artifacts_make_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=3000, reserve_bytes=0))
    first, second, third = (bench.put(content(n, 1000)) for n in (1, 2, 3))
    bench.store.pin(first, "chain")
    bench.store.pin(first, "fetch")
    bench.store.unpin(first, "fetch")
    fourth = bench.put(content(4, 900))
    held = [bench.store.has(artifact) for artifact in (first, second, third, fourth)]
    assert held == [True, False, True, True]
    bench.store.unpin(first, "chain")
    fifth = run(bench.store.begin, described(content(5, 1500)))
    held = [bench.store.has(artifact) for artifact in (first, third, fourth)]
    assert held == [False, False, True]
    assert bench.names() == sorted(
        [fourth.hex(), f"{fourth.hex()}.manifest", f"{fifth.hex()}.part", f"{fifth.hex()}.manifest"]
    )


def test_age_is_kept_over_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=2000, reserve_bytes=0))
    young, old = bench.put(content(1, 1000)), bench.put(content(2, 1000))
    os.utime(bench.store.path(old), (1, 1))
    bench.open()
    bench.put(content(3, 1000))
    assert (bench.store.has(young), bench.store.has(old)) == (True, False)


def test_what_is_pinned_or_being_fetched_is_never_removed_and_nothing_goes_in_vain(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=3000, reserve_bytes=0))
    pinned, loose = bench.put(content(1, 1000)), bench.put(content(2, 500))
    bench.store.pin(pinned, "chain")
    fetched = bench.begin(content(3, 1000))
    with pytest.raises(
        StoreError, match=r"2001 bytes, 1001 bytes lacking: raise store\.quota_bytes"
    ):
        bench.begin(content(4, 2001))
    with pytest.raises(StoreError, match="lacking"):
        bench.put(content(4, 2001))
    assert bench.store.has(loose)
    bench.begin(content(4, 1000))
    assert not bench.store.has(loose)
    assert bench.store.has(pinned)
    bench.write(fetched, content(3, 1000), 0)
    assert bench.store.has(fetched)


def test_i09_a_download_that_was_given_up_makes_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=2000, reserve_bytes=0))
    artifact = described(content(1, 1500)).id
    bench.store.pin(artifact, "fetch")
    bench.begin(content(1, 1500))
    with pytest.raises(StoreError, match="lacking"):
        bench.put(content(2, 1000))
    bench.store.unpin(artifact, "fetch")
    assert bench.store.has(bench.put(content(2, 1000)))
    with pytest.raises(StoreError, match="is not being fetched"):
        bench.write(artifact, content(1, 1500), 0)


def test_i09_what_an_earlier_run_left_half_makes_room_until_it_is_begun_again(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=2000, reserve_bytes=0))
    half = bench.begin(content(1, 1500))
    bench.open()
    bench.begin(content(1, 1500))
    with pytest.raises(StoreError, match="lacking"):
        bench.put(content(2, 1000))
    bench.open()
    bench.put(content(2, 1000))
    assert bench.store.manifest(half) is None


def test_i09_damaged_copies_count_and_go_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "blobs", StoreSettings(quota_bytes=3000, reserve_bytes=0))
    good, bad = bench.put(content(1, 1000)), bench.put(content(2, 1000))
    bench.store.path(bad).write_bytes(bytes(1000))
    assert bench.read(bad, 0) is None
    again = bench.put(content(2, 1000))
    assert again == bad
    assert f"{bad.hex()}.damaged" in bench.names()
    bench.put(content(3, 1000))
    assert f"{bad.hex()}.damaged" not in bench.names()
    assert bench.store.has(good)
    assert bench.store.has(bad)


def test_the_disk_reserve_is_kept_and_space_that_returns_is_used(tmp_path: Path) -> None:
    data = content(1)
    bench = Bench(
        tmp_path / "blobs", StoreSettings(quota_bytes=0, reserve_bytes=1000), len(data) + 999
    )
    with pytest.raises(StoreError, match="1 bytes lacking: free some disk space"):
        bench.begin(data)
    bench.free_bytes = len(data) + 1000
    artifact = bench.begin(data)
    with pytest.raises(StoreError, match="bytes lacking"):
        bench.begin(content(2, 1))  # the room is promised to the first one
    bench.write(artifact, data, 0)
    bench.free_bytes = 1500  # somebody else filled the disk
    with pytest.raises(StoreError, match=r"1500 bytes free and store\.reserve_bytes keeps 1000"):
        bench.write(artifact, data, 1)
    assert bench.store.missing(artifact) == (1, 2)
    bench.free_bytes = 10**9
    bench.write(artifact, data, 1, 2)
    assert bench.store.has(artifact)
