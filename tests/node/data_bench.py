"""Nodes in memory that have data sets in shard files, or fetch them."""

from collections.abc import Sequence
from hashlib import sha256
from random import Random

from p2pd.core.artifact import ArtifactKind
from p2pd.core.samples import dump_sample
from p2pd.core.shards import SHARD_FORMAT, ShardFile, ShardSet, Split, pack_shard
from p2pd.node.data_files import DataFiles, Givers
from p2pd.node.sources import Sources
from p2pd.ports import DataSource
from tests.node.transfer_bench import Node

TRAIN_FILES, VALID_FILES = 8, 2


def split_of(name: str, files: list[bytes], samples: int, each: int) -> Split:
    chunks = b"".join(sha256(data).digest() for data in files)  # each is less than a chunk
    return Split(name, samples, each, tuple(map(len, files)), chunks)


def packed(name: str, files: int, each: int) -> list[bytes]:
    records = [dump_sample((name, n)) for n in range(files * each)]
    return [pack_shard(records[n : n + each]) for n in range(0, len(records), each)]


TRAIN, VALID = packed("train", TRAIN_FILES, 4), packed("valid", VALID_FILES, 4)
SET = ShardSet(
    (
        split_of("train", TRAIN, 4 * TRAIN_FILES, 4),
        split_of("valid", VALID, 4 * VALID_FILES, 4),
    )
)
FILE_BYTES = max(map(len, TRAIN))


def files(*numbers: int) -> list[ShardFile]:
    return [SET.splits[0].file(number) for number in numbers]


async def give(node: Node) -> None:
    """The whole set."""
    await node.blobs.put(ArtifactKind.SHARD_SET, SHARD_FORMAT, SET.encoded)
    for data in (*TRAIN, *VALID):
        await node.blobs.put(ArtifactKind.SHARD, SHARD_FORMAT, data)


def data_of(node: Node, quota_bytes: int = 0, sources: Sequence[DataSource] = ()) -> DataFiles:
    """What a node does that wants data, and asks all that it is linked to."""

    def givers() -> Givers:
        return Givers((), [link.peer for link in node.transport.links()])

    others = Sources(sources, node.blobs, Random(0))
    return DataFiles(node.blobs, node.transfer, Random(0), givers, quota_bytes, others)


def held(node: Node) -> list[int]:
    """Numbers of the files of the training set."""
    numbers = {file.manifest.id: n for n, file in enumerate(files(*range(TRAIN_FILES)))}
    return sorted(
        numbers[one.id]
        for one in node.blobs.held(ArtifactKind.SHARD)
        if one.id in numbers and node.blobs.has(one.id)
    )
