"""kill -9 while the store and the ledger are written, again and again."""

import subprocess
import sys
from pathlib import Path

import trio

from p2pd.config.node import StoreSettings
from p2pd.core.ids import ArtifactId
from p2pd.io.blobs import FileBlobStore
from p2pd.io.keys import load_key
from p2pd.io.ledger import SqliteLedger
from p2pd.io.lock import DataDirectory
from p2pd.ports import Table

WRITER = """
import random, sys
from pathlib import Path
import trio
from p2pd.config.node import StoreSettings
from p2pd.core.artifact import ArtifactKind
from p2pd.io.blobs import FileBlobStore
from p2pd.io.keys import load_or_create_key
from p2pd.io.ledger import SqliteLedger
from p2pd.io.lock import DataDirectory
from p2pd.ports import Table, Write

async def main(directory):
    settings = StoreSettings(quota_bytes=0, reserve_bytes=0)
    with DataDirectory(directory) as data, SqliteLedger(data.ledger) as ledger:
        print(load_or_create_key(data.key).key.hex(), flush=True)
        blobs = FileBlobStore(data.blobs, settings, on_damage=print)
        while True:
            content = random.randbytes(1_500_000)
            artifact = await blobs.put(ArtifactKind.HEAD, bytes(32), content)
            await ledger.commit([Write(Table.PEERS, artifact, b"here")])
            print(artifact.hex(), flush=True)

trio.run(main, Path(sys.argv[1]))
"""


def killed_after(directory: Path, lines: int) -> list[str]:
    """What the writer reported before it was killed in the midst of something."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, directory], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline().strip() for _ in range(lines)]
        writer.kill()
        said += writer.stdout.read().split()
    return said


def test_i10_what_was_reported_is_there_after_every_kill(tmp_path: Path) -> None:
    reported: set[ArtifactId] = set()
    keys: set[str] = set()
    damage: list[str] = []

    async def verify(blobs: FileBlobStore) -> None:
        with trio.fail_after(30):
            for artifact in reported:
                await blobs.verify(artifact)

    for lines in (1, 3, 4):
        key, *artifacts = killed_after(tmp_path, lines)
        keys.add(key)
        reported.update(ArtifactId(bytes.fromhex(artifact)) for artifact in artifacts)
        with DataDirectory(tmp_path) as data, SqliteLedger(data.ledger) as ledger:
            assert load_key(data.key).key.hex() == key
            blobs = FileBlobStore(
                data.blobs,
                StoreSettings(),
                on_damage=lambda _, why: damage.append(why),
            )
            assert all(ledger.get(Table.PEERS, artifact) == b"here" for artifact in reported)
            trio.run(verify, blobs)
            left = [path.name for path in data.blobs.iterdir() if len(path.stem) != 64]
            assert left == []
    assert len(reported) >= 5
    assert len(keys) == 1
    assert damage == []
