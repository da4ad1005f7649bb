"""Whom a node serves artifacts, how much at a time, and what it says where it cannot."""

import pytest
import trio

from p2pd.core.ids import ArtifactId
from p2pd.core.talk import GetChunk
from p2pd.errors import RemoteError, StoreError, UnreachableError
from p2pd.node.download import TransferSettings
from p2pd.sim.store import MemoryBlobs
from tests.node.transfer_bench import DATA, MANIFEST, WANTED, Bench, peer, run


def test_only_those_who_may_have_it_are_served() -> None:
    friend = peer("friend")

    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", DATA, allowed=lambda who, _: who == friend)
        for name in ("friend", "stranger"):
            node = await bench.start(name)
            providers = await bench.link(node, [holder])
            if name == "friend":
                assert await node.transfer.fetch(WANTED, providers, rounds=1) == MANIFEST
            else:
                with pytest.raises(UnreachableError, match="not served here"):
                    await node.transfer.fetch(WANTED, providers, rounds=1)
        with pytest.raises(RemoteError, match="not served here"):
            await holder.transfer.serve_chunk(peer("stranger"), GetChunk(MANIFEST.id, 0))
        with pytest.raises(RemoteError, match="chunk 99"):
            await holder.transfer.serve_chunk(friend, GetChunk(MANIFEST.id, 99))

    run(scenario)


def test_i09_one_peer_cannot_have_everything_read_at_once() -> None:
    class SlowBlobs(MemoryBlobs):
        async def read(self, artifact: ArtifactId, index: int) -> bytes | None:
            await trio.sleep(1.0)
            return await super().read(artifact, index)

    refused: list[str] = []

    async def scenario(bench: Bench) -> None:
        holder = await bench.start(
            "holder", DATA, blobs=SlowBlobs(), settings=TransferSettings(serve_per_peer=2)
        )

        async def ask(index: int) -> None:
            try:
                await holder.transfer.serve_chunk(peer("greedy"), GetChunk(MANIFEST.id, index))
            except RemoteError as error:
                refused.append(str(error))

        async with trio.open_nursery() as nursery:
            for index in range(5):
                nursery.start_soon(ask, index)
            await trio.sleep(0.5)
            assert await holder.transfer.serve_chunk(peer("modest"), GetChunk(MANIFEST.id, 0))
        assert refused == ["too many requests at a time: wait for answers"] * 3
        await ask(0)
        assert len(refused) == 3

    run(scenario)


def test_a_damaged_artifact_is_refused_and_not_an_error_of_ours() -> None:
    class DamagedBlobs(MemoryBlobs):
        async def read(self, artifact: ArtifactId, index: int) -> bytes | None:
            raise StoreError("bad sector")

    async def scenario(bench: Bench) -> None:
        holder = await bench.start("holder", DATA, blobs=DamagedBlobs())
        alice = await bench.start("alice")
        with pytest.raises(UnreachableError, match="damaged here"):
            await alice.transfer.fetch(WANTED, await bench.link(alice, [holder]), rounds=1)

    run(scenario)
