from functools import partial
from pathlib import Path

import pytest
import torch

from p2pd.errors import StoreError
from p2pd.workload.generations import Generations
from p2pd.workload.trees import read_tree, write_tree


def keep(files: Generations, height: int, value: float, most: int = 2) -> None:
    files.keep(height, partial(write_tree, tree={"value": torch.tensor(value)}), most)


def value(files: Generations, height: int) -> object:
    return files.read(height, read_tree)


def test_the_last_ones_are_kept_and_found_by_height(tmp_path: Path) -> None:
    files = Generations(tmp_path / "new" / "own", "inner")
    assert files.below(100) == []
    for height in (9, 10, 11, 100):
        keep(files, height, float(height))
    keep(Generations(tmp_path / "new" / "own", "steps"), 7, 1.0)
    assert files.below(1000) == [100, 11]
    assert files.below(100) == [11]
    assert value(files, 11) == {"value": torch.tensor(11.0)}
    assert value(files, 10) is None
    files.sync()


def test_a_lease_that_is_trained_again_replaces_what_it_left(tmp_path: Path) -> None:
    files = Generations(tmp_path, "inner")
    keep(files, 1, 1.0)
    keep(files, 2, 2.0)
    keep(files, 2, 3.0)
    assert value(files, 2) == {"value": torch.tensor(3.0)}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "directory"])
def test_what_is_damaged_is_named_and_not_used(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Generations(tmp_path, "inner")
    keep(files, 1, 1.0)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    if damage == "directory":
        path.mkdir()
    else:
        path.write_bytes({"flipped": bytes(data), "cut": bytes(data[:-1]), "empty": b""}[damage])
    assert value(files, 1) is None
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{path} is damaged and was not used: ")


def test_a_disk_that_fails_is_said_with_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file: "):
        keep(Generations(tmp_path / "file", "inner"), 1, 1.0)
