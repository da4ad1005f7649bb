"""A fleet of real nodes whose data come with their leases: one has them, all others fetch what they need."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from p2pd.cli.reading import open_chain
from p2pd.config.fleet import load_fleet
from p2pd.core.shards import Split
from p2pd.daemon.processes import status_of
from p2pd.io.keys import load_key
from p2pd.io.lock import holder_of
from p2pd.io.shard_directory import open_directory
from p2pd.wire.records import load_record
from tests.cli.commands import p2pd
from tests.end_to_end import commands

FLEET = """
[fleet]
dir = "fleet"
genesis = "genesis.cbor"
record = "r.revision.cbor"
[[nodes]]
name = "seed"
role = "bootstrap"
data = "set"
[[nodes]]
name = "validator"
role = "validator"
[[nodes]]
name = "trainer1"
role = "trainer"
[[nodes]]
name = "trainer2"
role = "trainer"
"""
DIGITS = "p2pd.workloads.digits"
LIMIT_S = 150.0
POLL_S = 0.25


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    fleet = load_fleet(tmp_path / "fleet.toml")
    for pid in (holder_of(fleet.data_dir(node)) for node in fleet.nodes):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def done(*words: object) -> object:
    ran = p2pd(*words, "--json")
    assert ran.code == 0, ran.err
    return ran.json


def found(directory: Path) -> None:
    (directory / "fleet.toml").write_text(FLEET)
    shard = ("data", "shard", f"{DIGITS}:training", "--valid", f"{DIGITS}:validation")
    made = done(*shard, "--out", directory / "set")
    assert isinstance(made, dict)
    validator = done("id", "--data-dir", directory / "fleet" / "nodes" / "validator")
    assert isinstance(validator, dict)
    done("id", "--data-dir", directory / "authority")
    network = ("network", "create", "--out", directory / "genesis.cbor", "--name", "digits")
    authority = ("--authority", directory / "authority")
    done(*network, *authority, "--quorum", 1, "--validator", validator["public_key"])
    revision = ("--study", "digits", "--experiment", "sharded", "--name", "r")
    data = ("--workload", DIGITS, "--config", f"data={made['data']}", "--data", directory / "set")
    settings = ("schedule.end_heads=2", "schedule.shard_samples=64", "schedule.lease_shards=2")
    done(
        *("experiment", "publish", "--genesis", directory / "genesis.cbor", *authority),
        *("--out", directory / "r.revision.cbor", *revision, *data),
        *(word for setting in settings for word in ("--set", setting)),
    )


async def until_finished(node: Path) -> None:
    with trio.fail_after(LIMIT_S):
        while True:
            status = await trio.to_thread.run_sync(status_of, node)
            if status is not None and status["revisions"][0]["plan"] == "finished":
                return
            await trio.sleep(POLL_S)


def held(node: Path, split: Split) -> list[int]:
    """Numbers of the files that a node has in its store."""
    names = (split.manifest(number).id.hex() for number in range(len(split.sizes)))
    return [number for number, name in enumerate(names) if (node / "blobs" / name).exists()]


def dealt(directory: Path, name: str) -> list[int]:
    """Microshards of all leases that a node was given, by certified plans; here a microshard is a file."""
    node = directory / "fleet" / "nodes" / name
    peer, found = load_key(node / "key").peer, set[int]()
    with open_chain(directory / "genesis.cbor", node, "r") as chain:
        network = chain.setting.genesis.network
        for _, data in chain.records():
            lease = load_record(data, network).decision.state.plan.lease_of(peer)
            found.update(() if lease is None else lease.shards)
    return sorted(found)


def test_a_lease_brings_its_data_from_the_node_that_has_them(directory: Path) -> None:
    found(directory)
    assert commands.p2pd("fleet", "up", directory / "fleet.toml").code == 0
    nodes = directory / "fleet" / "nodes"
    for name in ("trainer1", "trainer2"):
        trio.run(until_finished, nodes / name)
    train, valid = open_directory(directory / "set").shards.splits
    for name in ("trainer1", "trainer2"):
        files = held(nodes / name, train)
        assert set(files) <= set(dealt(directory, name))
        assert 2 <= len(files) < len(train.sizes) / 2
    assert [held(nodes / name, valid) for name in ("trainer1", "trainer2", "seed")] == [[]] * 3
    assert held(nodes / "validator", train) == held(nodes / "seed", train) == []
    assert len(held(nodes / "validator", valid)) == len(valid.sizes)
    assert commands.p2pd("fleet", "down", directory / "fleet.toml").code == 0
