from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest
import trio

from p2pd.core.artifact import CHUNK_BYTES, ArtifactKind, Manifest, manifest_of
from p2pd.core.ids import ArtifactId
from p2pd.core.samples import dump_sample
from p2pd.core.shards import SET_FILE, SHARD_FORMAT, ShardFile, pack_shard
from p2pd.errors import NoRoomError, RemoteError, UnreachableError
from p2pd.node.data_files import LINKED_BEFORE_SOURCES
from p2pd.node.sources import LIED_BASE_S, Sources
from p2pd.ports import Reading
from p2pd.sim.run import run_seeded
from p2pd.sim.store import MemoryBlobs
from tests.node.data_bench import SET, TRAIN, VALID, data_of, files, give, held
from tests.node.transfer_bench import Bench, run

CONTENT = {
    SET_FILE: SET.encoded,
    **{SET.splits[0].file_name(n): data for n, data in enumerate(TRAIN)},
    **{SET.splits[1].file_name(n): data for n, data in enumerate(VALID)},
}


@dataclass
class Shelf:
    """Port DataSource, in memory."""

    name: str
    content: dict[str, bytes] = field(default_factory=lambda: dict(CONTENT))
    error: UnreachableError | RemoteError | None = None
    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def read(
        self, file: str, manifest: Manifest | None, chunk: int
    ) -> AsyncIterator[Reading]:
        await trio.sleep(0.1)
        self.asked.append(file)
        if self.error is not None:
            raise self.error
        if file not in self.content:
            raise UnreachableError(f"{self.name} has no {file}")
        yield _Pages(self.content[file][chunk * CHUNK_BYTES :])


@dataclass
class _Pages:
    rest: bytes

    async def next(self) -> bytes:
        await trio.sleep(0.1)
        data, self.rest = self.rest[:CHUNK_BYTES], self.rest[CHUNK_BYTES:]
        return data


def virtually(main: Callable[[], Awaitable[None]]) -> None:
    assert run_seeded(0, main, 100_000.0)


def lying(name: str = "liar") -> Shelf:
    return Shelf(name, {file: bytes(len(data)) for file, data in CONTENT.items()})


async def bring(sources: Sources, blobs: MemoryBlobs, number: int) -> str:
    (file,) = files(number)
    await blobs.begin(file.manifest)
    return await sources.bring(file)


def test_a_source_that_lies_is_asked_last_from_then_on_and_left_alone_for_long() -> None:
    async def main() -> None:
        liar, honest, blobs = lying(), Shelf("honest"), MemoryBlobs()
        sources = Sources([liar, honest], blobs, Random(0))
        assert await bring(sources, blobs, 0) == ""
        assert blobs.has(files(0)[0].manifest.id)
        assert (len(liar.asked), len(honest.asked)) == (1, 1)
        assert await bring(sources, blobs, 1) == ""
        await trio.sleep(2 * LIED_BASE_S)
        assert await bring(sources, blobs, 2) == ""
        assert (len(liar.asked), len(honest.asked)) == (1, 3)

    virtually(main)


def test_one_that_fails_is_asked_again_after_a_while() -> None:
    async def main() -> None:
        shelf, blobs = Shelf("shelf", error=UnreachableError("down")), MemoryBlobs()
        sources = Sources([shelf], blobs, Random(0))
        assert await bring(sources, blobs, 0) == "shelf: down"
        assert await bring(sources, blobs, 0) == "no source can be asked now"
        shelf.error = None
        await trio.sleep(5.0)
        assert await bring(sources, blobs, 0) == ""
        assert len(sources) == 1

    virtually(main)


def test_files_that_fail_at_the_same_time_count_once() -> None:
    async def main() -> None:
        shelf, blobs = Shelf("shelf", error=RemoteError("another size")), MemoryBlobs()
        sources = Sources([shelf], blobs, Random(0))
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(bring, sources, blobs, number)
        assert len(shelf.asked) == 8
        shelf.error = None
        await trio.sleep(2 * LIED_BASE_S)  # not a hundred times as long
        assert await bring(sources, blobs, 0) == ""

    virtually(main)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({}, "shelf: shelf has no train-000000.shard"),
        ({"train-000000.shard": TRAIN[0][:-1]}, "shelf: train-000000.shard ends early"),
        ({"train-000000.shard": TRAIN[1]}, "shelf: train-000000.shard has other bytes"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(content: dict[str, bytes], why: str) -> None:
    async def main() -> None:
        blobs = MemoryBlobs()
        sources = Sources([Shelf("shelf", content)], blobs, Random(0))
        assert (await bring(sources, blobs, 0)).startswith(why)

    virtually(main)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80", "set.cbor: ShardSet must be"),
        (b"", "set.cbor: object ends early"),
        (SET.encoded + b"x", "set.cbor: "),
    ],
)
def test_i08_a_manifest_that_is_not_the_revisions_is_refused(data: bytes, why: str) -> None:
    async def main() -> None:
        blobs = MemoryBlobs()
        sources = Sources([Shelf("shelf", {SET_FILE: data})], blobs, Random(0))
        assert (await sources.find(SET.id)).startswith(f"shelf: {why}")
        assert not blobs.has(SET.id)

    virtually(main)


def test_what_is_here_of_a_file_is_not_fetched_again() -> None:
    async def main() -> None:
        data = pack_shard([dump_sample(bytes([n]) * CHUNK_BYTES) for n in range(3)])
        manifest = manifest_of(ArtifactKind.SHARD, SHARD_FORMAT, data)
        blobs, shelf = MemoryBlobs(), Shelf("shelf", {"large": data})
        await blobs.begin(manifest)
        for chunk in (0, 1):
            await blobs.write(
                manifest.id, chunk, data[chunk * CHUNK_BYTES : (chunk + 1) * CHUNK_BYTES]
            )
        sources = Sources([shelf], blobs, Random(0))
        assert await sources.bring(ShardFile("large", manifest)) == ""
        assert blobs.payload(manifest.id) == data
        assert sources.received_bytes == len(data) - 2 * CHUNK_BYTES

    virtually(main)


def test_i08_what_is_not_compared_with_the_set_is_kept_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why each chunk is hashed: a store that believes its source holds what the liar likes."""

    async def believe(self: MemoryBlobs, artifact: ArtifactId, index: int, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self._blobs[artifact].chunks[index] = data

    async def main() -> None:
        blobs = MemoryBlobs()
        assert await bring(Sources([lying()], blobs, Random(0)), blobs, 0) != ""
        assert not blobs.has(files(0)[0].manifest.id)
        monkeypatch.setattr(MemoryBlobs, "write", believe)
        assert await bring(Sources([lying()], blobs, Random(0)), blobs, 0) == ""
        assert blobs.has(files(0)[0].manifest.id)

    virtually(main)


def test_without_a_penalty_a_liar_is_asked_first_every_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        asked = []
        for penalty in (True, False):
            liar, blobs = lying(), MemoryBlobs()
            if not penalty:
                monkeypatch.setattr(Sources, "_failed", lambda self, ranked, error: str(error))
            sources = Sources([liar, Shelf("honest")], blobs, Random(0))
            for number in range(5):
                assert await bring(sources, blobs, number) == ""
            asked.append(len(liar.asked))
        assert asked == [1, 5]

    virtually(main)


def test_a_full_store_is_no_fault_of_the_source() -> None:
    async def main() -> None:
        sources = Sources([Shelf("shelf")], MemoryBlobs(quota_bytes=5), Random(0))
        with pytest.raises(NoRoomError):
            await sources.find(SET.id)

    virtually(main)


def test_what_no_peer_gives_comes_from_a_source() -> None:
    async def scenario(bench: Bench) -> None:
        alice, shelf = await bench.start("alice"), Shelf("shelf")
        data = data_of(alice, sources=[lying(), shelf])
        assert await data.find(SET.id) == SET
        await data.bring(files(1, 5), "lease")
        assert held(alice) == [1, 5]
        assert sorted(shelf.asked) == [SET_FILE, "train-000001.shard", "train-000005.shard"]
        assert data.sources.received_bytes >= len(TRAIN[1]) + len(TRAIN[5])

    run(scenario)


def test_peers_that_have_a_file_spare_the_sources() -> None:
    async def scenario(bench: Bench) -> None:
        giver, alice, shelf = await bench.start("giver"), await bench.start("alice"), Shelf("shelf")
        await give(giver)
        await bench.link(alice, [giver])
        await data_of(alice, sources=[shelf]).bring(files(1, 5), "lease")
        assert held(alice) == [1, 5]
        assert shelf.asked == []

    run(scenario)


def test_a_few_peers_that_may_have_it_are_asked_before_a_source() -> None:
    async def scenario(bench: Bench) -> None:
        others = [await bench.start(f"other{n}") for n in range(8)]
        alice, shelf = await bench.start("alice"), Shelf("shelf")
        await bench.link(alice, others)
        await data_of(alice, sources=[shelf]).bring(files(1), "lease")
        assert held(alice) == [1]
        asked = [other for other in others if other.asked.total()]
        assert len(asked) == LINKED_BEFORE_SOURCES

    run(scenario)


def test_if_all_sources_fail_each_reason_is_said() -> None:
    async def scenario(bench: Bench) -> None:
        alice = await bench.start("alice")
        data = data_of(alice, sources=[Shelf("shelf", {})])
        with trio.move_on_after(5.0):
            await data.bring(files(1), "lease")
        assert "there are no providers" in data.last_failure
        assert "shelf" in data.last_failure or "no source" in data.last_failure

    run(scenario)
