import errno
import os
import stat
from pathlib import Path

import pytest

from p2pd.errors import StoreError
from p2pd.io.durable import (
    TEMPORARY,
    open_file,
    storing,
    temporary_directory,
    write_aside,
    write_durably,
)


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_durably(path, b"one")
    descriptor = os.open(path, os.O_RDONLY)
    write_durably(path, b"three")
    assert path.read_bytes() == b"three"
    assert os.read(descriptor, 10) == b"one", "a reader keeps what it opened"
    os.close(descriptor)
    assert list(tmp_path.iterdir()) == [path]


def test_an_unfinished_file_is_private_and_can_be_told_by_its_name(tmp_path: Path) -> None:
    aside = write_aside(tmp_path, b"data")
    assert aside.name.startswith(TEMPORARY)
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_i10_a_failed_replacement_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    path.mkdir()
    with pytest.raises(StoreError, match="it is a directory, not a file"):
        write_durably(path, b"data")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "the disk is full: free some space"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission denied"),
        (errno.EMLINK, "Too many links"),
    ],
)
def test_what_the_system_says_becomes_advice(tmp_path: Path, number: int, advice: str) -> None:
    with pytest.raises(StoreError, match=f"file: .*{advice}"), storing(tmp_path / "file"):
        raise OSError(number, os.strerror(number))


def test_only_a_regular_file_is_opened_and_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    with open_file(tmp_path / "file") as file:
        assert file.read() == b"data"
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "pipe", "a pipe or a device"), (tmp_path, "a directory")):
        with pytest.raises(StoreError, match=f"{path}: .*{words}"), storing(path):
            open_file(path)


def test_where_nothing_temporary_can_be_written_tmpdir_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in []")

    monkeypatch.setattr("tempfile.gettempdir", none)
    with pytest.raises(StoreError, match="set TMPDIR to one that can"):
        temporary_directory()
