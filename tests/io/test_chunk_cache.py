"""The chunks that were read last."""

import trio

from p2pd.core.ids import ArtifactId
from p2pd.io.chunk_cache import HELD_CHUNKS, ChunkCache

ARTIFACT = ArtifactId(bytes(32))


class Disk:
    def __init__(self, *gone: int) -> None:
        self.gone = gone
        self.reads: list[int] = []
        self.cache = ChunkCache()

    async def get(self, index: int) -> bytes | None:
        async def read() -> bytes | None:
            await trio.lowlevel.checkpoint()
            self.reads.append(index)
            return None if index in self.gone else bytes([index])

        return await self.cache.get((ARTIFACT, index), read)


def test_the_last_ones_are_held_and_no_more() -> None:
    async def main() -> None:
        disk = Disk()
        for index in range(HELD_CHUNKS):
            await disk.get(index)
        assert await disk.get(0) == b"\0"  # now the youngest
        await disk.get(HELD_CHUNKS)
        disk.reads.clear()
        for index in (0, 2, 1):
            assert await disk.get(index) == bytes([index])
        assert disk.reads == [1]

    trio.run(main)


def test_what_could_not_be_read_is_tried_again() -> None:
    async def main() -> None:
        disk = Disk(3)
        assert await disk.get(3) is None
        assert await disk.get(3) is None
        assert disk.reads == [3, 3]
        assert disk.cache._turns == {}

    trio.run(main)


def test_one_who_gives_up_leaves_the_reading_to_the_next() -> None:
    async def main() -> None:
        disk = Disk()
        with trio.CancelScope() as scope:
            scope.cancel()
            await disk.get(1)
        assert disk.reads == []
        assert await disk.get(1) == b"\1"
        assert disk.cache._turns == {}

    trio.run(main)
