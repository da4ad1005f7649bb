from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest
import trio

from p2pd.core.artifact import ArtifactKind, manifest_of
from p2pd.errors import LocalError, StoreError
from p2pd.ports import BlobStore, Ledger, Table, Write
from p2pd.sim.run import run_seeded
from p2pd.sim.store import UNSYNCED_MOST, MemoryBlobs, MemoryLedger, Moment
from tests.ports import blob_contract, ledger_contract
from tests.ports.blob_contract import DATA, SCHEMA, manifest_and_chunks

WRITE = Write(Table.PEERS, b"key", b"value")


def run(main: Callable[[], Awaitable[None]]) -> None:
    assert run_seeded(0, main, 60.0)


@pytest.mark.parametrize("clause", ledger_contract.CONTRACT)
def test_the_ledger_keeps_the_contract(clause: Callable[[Ledger], Awaitable[None]]) -> None:
    run(lambda: clause(MemoryLedger()))


@pytest.mark.parametrize("clause", blob_contract.CONTRACT)
def test_the_blob_store_keeps_the_contract(clause: Callable[[BlobStore], Awaitable[None]]) -> None:
    run(lambda: clause(MemoryBlobs()))


@pytest.mark.parametrize("moment", list(Moment))
def test_i10_a_crash_in_a_commit_leaves_all_of_it_or_nothing(moment: Moment) -> None:
    ledger = MemoryLedger()
    returned = False

    async def main() -> None:
        nonlocal returned
        with trio.CancelScope() as node:

            def crash(at: Moment, writes: Sequence[Write]) -> None:
                assert list(writes) == [WRITE, WRITE]
                if at is moment:
                    node.cancel()

            ledger.hook = crash
            await ledger.commit([WRITE, WRITE])
            returned = True
        ledger.hook = None
        await ledger.commit([])  # the restarted node can write

    run(main)
    assert not returned
    assert ledger.get(Table.PEERS, b"key") == (b"value" if moment is Moment.AFTER else None)


def test_a_full_disk_keeps_nothing_of_a_commit() -> None:
    ledger = MemoryLedger()

    def full(at: Moment, _: Sequence[Write]) -> None:
        if at is Moment.BEFORE:
            raise StoreError("disk full")

    async def main() -> None:
        ledger.hook = full
        with pytest.raises(StoreError):
            await ledger.commit([WRITE])

    run(main)
    assert ledger.get(Table.PEERS, b"key") is None


def test_commits_take_time_one_after_the_other() -> None:
    ledger = MemoryLedger(commit_s=0.5)
    ends: list[float] = []

    async def write() -> None:
        await ledger.commit([WRITE])
        ends.append(trio.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(write)

    run(main)
    assert ends == [0.5, 1.0, 1.5]


def test_a_crash_may_cost_chunks_of_incomplete_artifacts_only() -> None:
    blobs = MemoryBlobs()
    manifest, chunks = manifest_and_chunks()

    async def main() -> None:
        whole = await blobs.put(ArtifactKind.HEAD, SCHEMA, b"whole")
        for seed in range(20):
            await blobs.begin(manifest)
            for index in (0, 1):
                await blobs.write(manifest.id, index, chunks[index])
            blobs.crash(Random(seed))
            seen.add(blobs.missing(manifest.id))
            assert blobs.payload(whole) == b"whole"

    seen: set[tuple[int, ...]] = set()
    run(main)
    assert seen == {(2,), (0, 2), (1, 2), (0, 1, 2)}


def test_the_payload_of_an_artifact_is_its_bytes() -> None:
    blobs = MemoryBlobs()

    async def main() -> None:
        artifact = await blobs.put(ArtifactKind.HEAD, SCHEMA, DATA)
        assert blobs.payload(artifact) == DATA
        with pytest.raises(StoreError, match="not complete"):
            blobs.payload(manifest_of(ArtifactKind.HEAD, SCHEMA, b"other").id)

    run(main)


def test_what_nobody_pins_makes_room_within_the_quota() -> None:
    blobs = MemoryBlobs(quota_bytes=10)

    async def main() -> None:
        kept = await blobs.put(ArtifactKind.HEAD, SCHEMA, b"1234")
        blobs.pin(kept, "chain")
        blobs.pin(kept, "role")
        blobs.unpin(kept, "role")
        gone = await blobs.put(ArtifactKind.HEAD, SCHEMA, b"5678")
        await blobs.put(ArtifactKind.HEAD, SCHEMA, b"abcdef")
        assert blobs.has(kept)
        assert not blobs.has(gone)
        with pytest.raises(StoreError, match="quota"):
            await blobs.put(ArtifactKind.HEAD, SCHEMA, b"1234567")
        assert blobs.has(kept)
        blobs.unpin(kept, "chain")
        await blobs.put(ArtifactKind.HEAD, SCHEMA, b"1234567")
        assert not blobs.has(kept)

    run(main)


def test_pins_end_with_the_process() -> None:
    blobs = MemoryBlobs(quota_bytes=10)

    async def main() -> None:
        kept = await blobs.put(ArtifactKind.HEAD, SCHEMA, b"12345678")
        blobs.pin(kept, "chain")
        blobs.crash(Random(0))
        assert blobs.has(kept)
        await blobs.put(ArtifactKind.HEAD, SCHEMA, b"abcdefgh")
        assert not blobs.has(kept)

    run(main)


def test_writing_what_was_not_begun_is_a_bug() -> None:
    manifest, chunks = manifest_and_chunks()

    async def main() -> None:
        with pytest.raises(LocalError, match="not begun"):
            await MemoryBlobs().write(manifest.id, 0, chunks[0])

    run(main)


def fetched(blobs: MemoryBlobs, kind: ArtifactKind, data: bytes) -> Callable[[], Awaitable[None]]:
    async def main() -> None:
        manifest = manifest_of(kind, SCHEMA, data)
        await blobs.begin(manifest)
        await blobs.write(manifest.id, 0, data)

    return main


@pytest.mark.parametrize("kind", [ArtifactKind.HEAD, ArtifactKind.OUTER])
def test_i10_a_power_cut_costs_nothing_that_was_synced(kind: ArtifactKind) -> None:
    blobs = MemoryBlobs()

    async def main() -> None:
        await fetched(blobs, kind, b"fetched")()
        mine = await blobs.put(ArtifactKind.UPDATE, SCHEMA, b"made here")
        for seed in range(20):
            blobs.crash(Random(seed), power=True)
            assert blobs.payload(mine) == b"made here"
            assert blobs.payload(manifest_of(kind, SCHEMA, b"fetched").id) == b"fetched"

    run(main)


def test_i10_what_a_power_cut_tore_of_a_fetched_update_is_never_taken_for_whole() -> None:
    data, seen = bytes(range(200)), set[tuple[bool, bool]]()
    artifact = manifest_of(ArtifactKind.UPDATE, SCHEMA, data).id

    async def main() -> None:
        for seed in range(40):
            blobs = MemoryBlobs()
            await fetched(blobs, ArtifactKind.UPDATE, data)()
            blobs.crash(Random(seed))
            assert blobs.payload(artifact) == data  # the machine lives: nothing was lost
            blobs.crash(Random(seed), power=True)
            said = blobs.has(artifact)
            whole = await blobs.check(artifact)
            seen.add((said, whole))
            assert whole == blobs.has(artifact) == (await blobs.read(artifact, 0) == data)
            if not whole:
                with pytest.raises(StoreError, match="not complete"):
                    blobs.payload(artifact)
                await fetched(blobs, ArtifactKind.UPDATE, data)()
                assert blobs.payload(artifact) == data

    run(main)
    assert seen == {(True, True), (True, False), (False, False)}


def test_i10_of_a_half_fetched_artifact_only_whole_chunks_count_after_a_power_cut() -> None:
    manifest, chunks = manifest_and_chunks()
    seen: set[tuple[int, ...]] = set()

    async def main() -> None:
        for seed in range(20):
            blobs = MemoryBlobs()
            await blobs.begin(manifest)
            for index in (0, 1):
                await blobs.write(manifest.id, index, chunks[index])
            blobs.crash(Random(seed), power=True)
            await blobs.begin(manifest)
            missing = blobs.missing(manifest.id)
            seen.add(missing)
            for index in {0, 1} - {*missing}:
                assert await blobs.read(manifest.id, index) == chunks[index]

    run(main)
    assert seen == {(2,), (0, 2), (1, 2), (0, 1, 2)}


def test_an_update_is_on_the_disk_once_others_were_fetched_after_it() -> None:
    blobs = MemoryBlobs()

    async def main() -> None:
        for n in range(UNSYNCED_MOST + 1):
            await fetched(blobs, ArtifactKind.UPDATE, bytes([n]))()
        for seed in range(20):
            blobs.crash(Random(seed), power=True)
        assert blobs.payload(manifest_of(ArtifactKind.UPDATE, SCHEMA, bytes([0])).id) == bytes([0])

    run(main)
