from pathlib import Path

import pytest

from p2pd.cli.fleet import _cell
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


def test_a_node_that_ended_has_its_last_words_said(fleet: Path) -> None:
    output = fleet.parent / "lab" / "output" / "viewer1.txt"
    output.parent.mkdir(parents=True)
    output.write_text("12:00:00 INFO up\np2pd: workload spirals here has the \x1b[2J digest 7\n\n")
    log = fleet.parent / "lab" / "nodes" / "seed1" / "log"
    log.parent.mkdir(parents=True)
    log.write_text("12:00:00 INFO    p2pd: left\n")
    out = p2pd("fleet", "status", fleet).out.splitlines()
    assert out[-2:] == [
        "seed1 is not running: 12:00:00 INFO    p2pd: left",
        "viewer1 is not running: workload spirals here has the \\x1b[2J digest 7",
    ]
    assert "why" not in out[0]
    rows = p2pd("fleet", "status", fleet, "--json").json
    assert "digest 7" in rows[1]["why"]


def test_nodes_that_were_stopped_are_said_to_be_stopped_and_nothing_like_an_error(
    fleet: Path,
) -> None:
    for name in ("seed1", "viewer1"):
        output = fleet.parent / "lab" / "output" / f"{name}.txt"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("17:58:30 INFO    p2pd.daemon: up\n17:58:39 INFO    p2pd.daemon: left\n")
    assert p2pd("fleet", "status", fleet).out.splitlines()[-1] == "stopped: seed1, viewer1"
    rows = p2pd("fleet", "status", fleet, "--json").json
    assert [row["why"] for row in rows] == ["stopped", "stopped"]


def test_a_node_that_never_ran_is_said_to_be_so(fleet: Path) -> None:
    assert p2pd("fleet", "status", fleet).out.splitlines()[-1] == (
        "viewer1 is not running: it has never run here"
    )


def test_on_the_screen_ids_are_short_and_running_is_yes_or_no() -> None:
    assert [_cell("peer", "ab" * 32), _cell("head", "cd" * 32)] == ["ababababab", "cdcdcdcdcd"]
    assert [_cell("running", True), _cell("running", False), _cell("height", None)] == [
        "yes",
        "no",
        "-",
    ]
    assert [_cell("address", "127.0.0.1:41000"), _cell("height", 7)] == ["127.0.0.1:41000", "7"]


def test_taking_down_what_is_down_is_no_failure(fleet: Path) -> None:
    ran = p2pd("fleet", "down", fleet)
    assert ran.code == 0
    assert ran.out.splitlines() == ["seed1: did not run", "viewer1: did not run"]


@pytest.mark.parametrize("command", ["up", "down", "status"])
def test_a_file_that_is_none_is_a_matter_of_usage(tmp_path: Path, command: str) -> None:
    ran = p2pd("fleet", command, tmp_path / "none.toml")
    assert ran.code == 2
    assert "there is no such configuration file" in ran.err
