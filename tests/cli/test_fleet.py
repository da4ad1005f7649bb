from pathlib import Path

import pytest

from tests.cli.chains import build_chain
from tests.cli.commands import p2pd


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A fleet none of whose nodes runs."""
    (tmp_path / "chain").mkdir()
    genesis = build_chain(tmp_path / "chain", heights=1).genesis_file
    file = tmp_path / "fleet.toml"
    file.write_text(
        f'[fleet]\ndir = "lab"\ngenesis = "{genesis}"\n'
        '[[nodes]]\nname = "seed1"\nrole = "bootstrap"\n'
        '[[nodes]]\nname = "viewer1"\nrole = "viewer"\n'
    )
    return file


def test_nodes_that_do_not_run_are_said_to_be_down(fleet: Path) -> None:
    rows = p2pd("fleet", "status", fleet, "--json").json
    assert [(row["name"], row["running"]) for row in rows] == [("seed1", False), ("viewer1", False)]
    out = p2pd("fleet", "status", fleet).out
    assert "seed1" in out
    assert "viewer1" in out


def test_taking_down_what_is_down_is_no_failure(fleet: Path) -> None:
    ran = p2pd("fleet", "down", fleet)
    assert ran.code == 0
    assert ran.out.splitlines() == ["seed1: did not run", "viewer1: did not run"]


@pytest.mark.parametrize("command", ["up", "down", "status"])
def test_a_file_that_is_none_is_a_matter_of_usage(tmp_path: Path, command: str) -> None:
    ran = p2pd("fleet", command, tmp_path / "none.toml")
    assert ran.code == 2
    assert "there is no such configuration file" in ran.err
