"""Files as samples: a directory of them, lines of JSON, records of fixed size. Blocking. Units: bytes.

DIR with files only      a sample is the bytes of one file, in the order of their paths
DIR with directories     a sample is (bytes of a file, number of its class); a directory is a class
FILE.jsonl               a sample is what one line says: text, numbers, lists, dicts
any FILE, record_bytes   a sample is so many bytes
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from p2pd.core.samples import SAMPLE_BYTES_MOST, dump_sample
from p2pd.core.shards import CLASSES_MOST
from p2pd.errors import UsageError
from p2pd.io.durable import is_directory, open_file, read_most, storing
from p2pd.io.shard_writer import Source

LINES = ".jsonl"


def read_files(path: Path, record_bytes: int) -> Source:
    """The samples of a directory or a file; record_bytes is 0 where nothing is said of it.

    Raises:
        UsageError: it is none of these.
        StoreError: it cannot be read.
    """
    with storing(path):
        if path.is_dir():
            return _directory(path)
        if record_bytes:
            return Source(str(path), _records(path, record_bytes))
        if path.suffix == LINES:
            return Source(str(path), _lines(path))
    raise UsageError(
        f"{path}: neither a directory nor {LINES}: name one, or give --record-bytes, or a data set of"
        " PyTorch as module:callable"
    )


def _directory(root: Path) -> Source:
    entries = _shown(root)
    classes = tuple(entry.name for entry in entries if entry.is_dir())
    if not classes:
        return Source(str(root), _contents(entries))
    if len(classes) != len(entries):
        stray = next(entry for entry in entries if not entry.is_dir())
        raise UsageError(f"{stray}: a file beside directories, which are classes: move it away")
    if len(classes) > CLASSES_MOST:
        raise UsageError(f"{root}: {len(classes)} classes, {CLASSES_MOST} are the most")
    return Source(str(root), _classed(entries), classes)


def _shown(directory: Path) -> list[Path]:
    """What lies in a directory, by name; what begins with a dot is not meant."""
    with storing(directory):
        found = [path for path in directory.iterdir() if not path.name.startswith(".")]
    return sorted(found, key=lambda path: path.name)


def _below(directory: Path) -> Iterator[Path]:
    for path in _shown(directory):
        if is_directory(path) and not path.is_symlink():
            yield from _below(path)
        else:
            yield path


def _contents(paths: Sequence[Path]) -> Iterator[bytes]:
    for path in paths:
        yield _encoded(str(path), _read(path))


def _classed(directories: Sequence[Path]) -> Iterator[bytes]:
    for number, directory in enumerate(directories):
        for path in _below(directory):
            yield _encoded(str(path), (_read(path), number))


def _read(path: Path) -> bytes:
    with storing(path), open_file(path) as file:
        data = read_most(file, SAMPLE_BYTES_MOST)
    if len(data) > SAMPLE_BYTES_MOST:
        raise UsageError(f"{path}: larger than {SAMPLE_BYTES_MOST} bytes, the most of a sample")
    return data


def _records(path: Path, record_bytes: int) -> Iterator[bytes]:
    with storing(path), open_file(path) as file:
        while record := file.read(record_bytes):
            if len(record) < record_bytes:
                raise UsageError(
                    f"{path}: its last record has {len(record)} bytes, not {record_bytes}: look at"
                    " --record-bytes"
                )
            yield _encoded(str(path), record)


def _lines(path: Path) -> Iterator[bytes]:
    with storing(path), open_file(path) as file:
        number = 0
        while line := _line(file, path):
            number += 1
            if line.strip():
                yield _encoded(f"{path}:{number}", parse_line(line, f"{path}:{number}"))


def _line(file: BinaryIO, path: Path) -> bytes:
    line = file.readline(SAMPLE_BYTES_MOST + 1)
    if len(line) > SAMPLE_BYTES_MOST:
        raise UsageError(f"{path}: a line is larger than {SAMPLE_BYTES_MOST} bytes: cut it")
    return line


def parse_line(line: bytes, where: str) -> object:
    """Raises UsageError: the line is no JSON."""
    try:
        return json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not a line of JSON: look at it") from error


def _refuse(name: str) -> None:
    raise ValueError(name)


def _encoded(where: str, sample: object) -> bytes:
    try:
        return dump_sample(sample)
    except ValueError as error:
        raise UsageError(f"{where}: no sample can be made of it: {error}") from error
