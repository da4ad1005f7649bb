"""`p2pd fleet` with a file of its own."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from p2pd.config.fleet import load_fleet
from p2pd.io.lock import holder_of
from tests.end_to_end.commands import Ran, p2pd
from tests.end_to_end.fleet_bench import Built, Founded, found
from tests.end_to_end.processes import naming

FLEET = """
[fleet]
dir = "fleet"
genesis = "genesis.cbor"
record = "digits.revision.cbor"

[[nodes]]
name = "viewer"
role = "viewer"

[[nodes]]
name = "reducer"
role = "reducer"

[[nodes]]
name = "seed"
role = "bootstrap"
"""


@pytest.fixture
def founded(tmp_path: Path, built: Built) -> Iterator[Founded]:
    (tmp_path / "fleet.toml").write_text(FLEET)
    yield found(tmp_path, built)
    for pid in pids(tmp_path):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def pids(directory: Path) -> list[int | None]:
    fleet = load_fleet(directory / "fleet.toml")
    return [holder_of(fleet.data_dir(node)) for node in fleet.nodes]


def rows(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def test_a_fleet_is_brought_up_once_and_taken_down_whole(founded: Founded) -> None:
    file = founded.directory / "fleet.toml"
    assert [row["running"] for row in rows(p2pd("fleet", "status", file, "--json"))] == [False] * 3

    up = rows(p2pd("fleet", "up", file, "--json"))
    assert [(row["name"], row["running"], row["height"]) for row in up] == [
        ("viewer", True, 0),
        ("reducer", True, 0),
        ("seed", True, 0),
    ]
    assert len({row["peer"] for row in up}) == 3
    first = pids(founded.directory)
    assert None not in first

    again = rows(p2pd("fleet", "up", file, "--json"))
    assert [row["peer"] for row in again] == [row["peer"] for row in up]
    assert pids(founded.directory) == first
    table = p2pd("fleet", "status", file)
    assert table.code == 0
    assert all(row["name"] in table.out for row in up)

    down = rows(p2pd("fleet", "down", file, "--json"))
    assert [row["running"] for row in down] == [False] * 3
    assert naming(founded.directory) == []
    assert p2pd("fleet", "down", file).code == 0


def test_a_node_that_was_killed_is_started_again_as_the_same_peer(founded: Founded) -> None:
    file = founded.directory / "fleet.toml"
    up = rows(p2pd("fleet", "up", file, "--json"))
    victim, *others = pids(founded.directory)
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    seen = rows(p2pd("fleet", "status", file, "--json"))
    assert [row["running"] for row in seen] == [False, True, True]
    assert (seen[0]["peer"], seen[0]["height"]) == (None, None)
    table = p2pd("fleet", "status", file)
    assert table.code == 0, table.err
    again = rows(p2pd("fleet", "up", file, "--json"))
    assert [row["peer"] for row in again] == [row["peer"] for row in up]
    now = pids(founded.directory)
    assert now[1:] == others
    assert now[0] not in (None, victim)
    assert p2pd("fleet", "down", file).code == 0
    assert naming(founded.directory) == []


def test_a_node_that_cannot_start_is_named_with_its_last_words(founded: Founded) -> None:
    key = founded.directory / "fleet" / "nodes" / "reducer" / "key"
    key.parent.mkdir(parents=True)
    key.write_text("garbage\n")
    key.chmod(0o600)
    ran = p2pd("fleet", "up", founded.directory / "fleet.toml")
    assert ran.code == 1
    assert "reducer did not start" in ran.lines[-1]
    assert "64 hex digits" in ran.lines[-1]
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('genesis = "genesis.cbor"\n', "genesis"),
        ('role = "reducer"', "known roles"),
        ('dir = "fleet"', "dir"),
    ],
)
def test_a_fleet_file_that_will_not_do_starts_nothing(
    founded: Founded, change: str, words: str
) -> None:
    file = founded.directory / "fleet.toml"
    file.write_text(FLEET.replace(change, 'role = "potter"' if "role" in change else ""))
    ran = p2pd("fleet", "up", file)
    assert ran.code == 2
    assert words in ran.err
    assert all(line.startswith("p2pd: ") for line in ran.lines)
    assert naming(founded.directory) == []
    file.write_text(FLEET)
