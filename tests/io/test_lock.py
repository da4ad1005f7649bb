import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from p2pd.errors import StoreError
from p2pd.io.lock import DataDirectory, holder_of

HOLDER = """
import sys
from pathlib import Path
from p2pd.io.lock import DataDirectory, holder_of
with DataDirectory(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_directory_is_made_private_and_laid_out(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    with DataDirectory(path) as data:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert (data.ledger, data.blobs) == (path / "ledger.sqlite", path / "blobs")
        assert (data.key, data.log) == (path / "key", path / "log")
        assert stat.S_IMODE((path / "lock").stat().st_mode) == 0o600


def test_i10_the_second_process_hears_who_holds_it_and_a_killed_holder_holds_nothing(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        said = rf"data directory {tmp_path} is in use by process {holder.pid}: stop it"
        with pytest.raises(StoreError, match=said):
            DataDirectory(tmp_path)
        holder.kill()
    assert (tmp_path / "lock").exists()
    DataDirectory(tmp_path).close()


def test_a_lock_file_that_somebody_left_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")  # a process that lives, but holds no lock
    with DataDirectory(tmp_path), pytest.raises(StoreError, match="is in use by process"):
        DataDirectory(tmp_path)
    with DataDirectory(tmp_path):
        pass


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with DataDirectory(Path("data")) as data:
        assert data.ledger == tmp_path / "data" / "ledger.sqlite"


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(StoreError, match=f"{path}: there is a file of that name already"):
        DataDirectory(path)
    with pytest.raises(StoreError, match=f"{path}: there is a file of that name already"):
        DataDirectory(path / "data")
    assert path.is_file()


def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreError, match=f"{tmp_path / 'lock'}: it is a directory, not a file"):
        DataDirectory(tmp_path)


def test_the_holder_is_found_without_its_help(tmp_path: Path) -> None:
    path = tmp_path / "data"
    assert holder_of(path) is None
    with DataDirectory(path):
        assert holder_of(path) == os.getpid()
    assert holder_of(path) is None


def test_the_holder_is_who_holds_it_and_not_who_is_named_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with DataDirectory(path):
        for content in (b"1", b"garbage", b"0"):
            (path / "lock").write_bytes(content)
            assert holder_of(path) == os.getpid()


def test_a_lock_that_is_held_and_names_nobody_is_said(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with DataDirectory(path):
        for content in (b"", b"garbage", "²".encode()):
            (path / "lock").write_bytes(content)
            with pytest.raises(StoreError, match="is in use by another process"):
                DataDirectory(path)


def test_i10_what_a_crash_left_unfinished_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.mkdir()
    (path / "tmp-key").write_bytes(b"the seed of a key that never was")
    DataDirectory(path).close()
    assert [one.name for one in path.iterdir()] == ["lock"]


def test_a_pipe_is_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(StoreError, match=f"{tmp_path / 'lock'}: a pipe or a device"):
        DataDirectory(tmp_path)
