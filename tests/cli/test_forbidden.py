"""Whatever path a command is given that this user may not enter, it says so in a line."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.chains import build_chain
from tests.cli.commands import p2pd
from tests.daemon.unprivileged import unprivileged

GENESIS, SHUT, FLEET = "GENESIS", "SHUT", "FLEET"
COMMANDS = [
    ["fleet", "status", FLEET],
    ["fleet", "down", FLEET],
    ["fleet", "up", FLEET],
    ["id", "--data-dir", f"{SHUT}/node"],
    ["status", "--data-dir", f"{SHUT}/node", "--once"],
    ["status", "--config", f"{SHUT}/node.toml", "--once"],
    ["config", "check", f"{SHUT}/node.toml"],
    ["network", "show", f"{SHUT}/genesis.cbor"],
    ["heads", "list", "--genesis", f"{SHUT}/genesis.cbor", "--data-dir", SHUT],
    ["heads", "list", "--genesis", GENESIS, "--data-dir", f"{SHUT}/node"],
    ["heads", "show", "--genesis", GENESIS, "--data-dir", f"{SHUT}/node"],
    ["heads", "verify", "--genesis", GENESIS, "--data-dir", f"{SHUT}/node"],
    ["heads", "export", "--genesis", GENESIS, "--data-dir", f"{SHUT}/node", "--out", "o"],
    ["experiment", "list", "--genesis", GENESIS, "--data-dir", f"{SHUT}/node"],
    ["run", "--role", "viewer", "--genesis", GENESIS, "--data-dir", f"{SHUT}/node"],
    ["run", "--role", "viewer", "--genesis", f"{SHUT}/g.cbor", "--data-dir", "node"],
    ["demo", "--dir", f"{SHUT}/demo"],
    ["data", "check", f"{SHUT}/set"],
    ["data", "shard", SHUT, "--out", "set"],
    ["data", "shard", f"{SHUT}/lines.jsonl", "--out", "set"],
    ["data", "shard", f"{SHUT}/a:b", "--out", "set"],
    ["data", "shard", ".", "--out", f"{SHUT}/set"],
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    directory = tmp_path_factory.mktemp("forbidden")
    genesis = build_chain(directory, heights=1).genesis_file
    shut = directory / "lab" / "nodes"
    (shut / "seed1").mkdir(parents=True)
    fleet = directory / "fleet.toml"
    fleet.write_text(
        f'[fleet]\ndir = "lab"\ngenesis = "{genesis}"\n[[nodes]]\nname = "seed1"\nrole = "bootstrap"\n'
    )
    shut.chmod(0)
    yield {GENESIS: genesis, SHUT: shut, FLEET: fleet}
    shut.chmod(0o700)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_may_not_be_entered_is_a_line_and_a_failure(
    places: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [re.sub("|".join(places), lambda name: str(places[name[0]]), word) for word in command]
    with unprivileged():
        ran = p2pd(*words)
    assert ran.code in (1, 2)
    assert re.fullmatch(r"p2pd: .*/lab/nodes.*: permission denied: check .*\n", ran.err)


@pytest.mark.parametrize("command", ["verify", "export"])
def test_artifacts_that_may_not_be_looked_at_are_a_line_and_a_failure(
    tmp_path: Path, command: str
) -> None:
    chain = build_chain(tmp_path, heights=1)
    blobs = chain.data_dir / "blobs"
    out = ["--out", tmp_path / "head"] if command == "export" else []
    blobs.chmod(0)
    with unprivileged():
        ran = p2pd("heads", command, *chain.arguments, *out)
    blobs.chmod(0o700)
    assert ran.code == 1
    assert re.fullmatch(r"p2pd: .*/node/blobs.*: permission denied: check .*\n", ran.err)
