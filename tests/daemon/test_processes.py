import os
import subprocess
import sys
from pathlib import Path

import pytest

from p2pd.daemon.demo import DemoOptions
from p2pd.daemon.files import read_genesis
from p2pd.daemon.processes import last_words, status_of
from p2pd.errors import UsageError


def test_a_directory_without_a_node_has_no_status(tmp_path: Path) -> None:
    assert status_of(tmp_path) is None
    assert status_of(tmp_path / "nowhere") is None


def test_the_last_words_are_the_last_line(tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert last_words(output) == "it printed nothing"
    output.write_bytes(b"")
    assert last_words(output) == "it printed nothing"
    output.write_bytes(b"first\nlast \xff\n")
    assert last_words(output) == "last �"


def test_a_tied_node_whose_parent_is_gone_does_not_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "p2pd.daemon.tied", str(os.getppid()), str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_tied_node_with_a_wrong_configuration_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "p2pd.daemon.tied", str(os.getpid()), str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("p2pd: ")
    assert str(tmp_path / "c") in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [{"trainers": 0}, {"validators": 0}, {"windows": 0}, {"reducers": -1}, {"trainers": 33}],
)
def test_a_demo_has_nodes_and_windows_within_reason(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="a demo"):
        DemoOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("validators", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 4), (7, 5), (32, 22)]
)
def test_a_demo_of_four_or_more_validators_survives_liars(validators: int, quorum: int) -> None:
    options = DemoOptions(validators=validators)
    assert options.quorum == quorum
    liars = 2 * quorum - validators - 1
    assert liars >= (1 if validators >= 4 else 0)


@pytest.mark.parametrize("endless", [False, True])
def test_a_genesis_too_large_to_be_one_is_not_read(tmp_path: Path, endless: bool) -> None:
    path = Path("/dev/zero")
    if not endless:
        path = tmp_path / "genesis"
        with path.open("wb") as file:
            file.truncate(2**30)
    with pytest.raises(UsageError, match=r"too large to be a genesis|a device, not a file"):
        read_genesis(path)
