"""What may become of a file, and the places of a node's files."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from p2pd.daemon.publish import head_file_of
from tests.cli.chains import Built
from tests.daemon.image import HALF, Image

Damage = Callable[[Path], None]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _garbage(path: Path) -> None:
    path.write_bytes(Random(7).randbytes(path.stat().st_size))


def _flip(path: Path) -> None:
    """One bit of the byte in the middle."""
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 0x80
    path.write_bytes(data)


def _longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more than there was")


def _directory(path: Path) -> None:
    _remove(path)
    path.mkdir()
    (path / "file").touch()


def _pipe(path: Path) -> None:
    _remove(path)
    os.mkfifo(path)


def _dangling(path: Path) -> None:
    _remove(path)
    path.symlink_to(path.with_name("nowhere"))


def _loop(path: Path) -> None:
    _remove(path)
    path.symlink_to(path)


def _moved(path: Path) -> None:
    """To another disk, as an administrator does, with a link where it was."""
    there = path.parent.parent / f"{path.name}.elsewhere"
    path.rename(there)
    path.symlink_to(there)


CONTENT: Mapping[str, Damage] = {
    "empty": _empty,
    "half": _half,
    "garbage": _garbage,
    "flipped": _flip,
    "longer": _longer,
}
KIND: Mapping[str, Damage] = {
    "missing": _remove,
    "directory": _directory,
    "pipe": _pipe,
    "dangling": _dangling,
    "loop": _loop,
    "moved": _moved,
}
DAMAGES: Mapping[str, Damage] = {**CONTENT, **KIND}


def places(image: Image, built: Built) -> dict[str, Path]:
    """Every file that a node has or is given, by a name for people."""
    node, blobs = image.data_dir, image.data_dir / "blobs"
    head = blobs / built.decisions[-1].head.hex()
    half = blobs / HALF.id.hex()
    return {
        "key": node / "key",
        "ledger": node / "ledger.sqlite",
        "wal": node / "ledger.sqlite-wal",
        "shm": node / "ledger.sqlite-shm",
        "count": node / "ledger.count",
        "lock": node / "lock",
        "control": node / "control",
        "log": node / "log",
        "older log": node / "log.1",
        "leftover": node / "tmp-leftover",
        "head": head,
        "head's manifest": head.with_name(f"{head.name}.manifest"),
        "part": half.with_name(f"{half.name}.part"),
        "part's manifest": half.with_name(f"{half.name}.manifest"),
        "kept": blobs / f"{built.decisions[2].head.hex()}.keep",
        "set aside": blobs / f"{bytes(32).hex()}.damaged",
        "leftover blob": blobs / "tmp-leftover",
        "genesis": image.root / "genesis.cbor",
        "record": image.record,
        "head file": head_file_of(image.record),
    }
