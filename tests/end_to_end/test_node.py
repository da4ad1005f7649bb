"""Single nodes: how they refuse, and how they end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from p2pd.core.hello import PROTOCOL_VERSION
from tests.end_to_end.commands import Ran, p2pd
from tests.end_to_end.fleet_bench import Bench, Built, Founded, found, open_bench, until
from tests.end_to_end.processes import Process, gone, mapped, worker_of

LIMIT_S = 120.0
LEAVE_S = 10.0
IMPORTS = """
import sys
import p2pd.daemon.run
from p2pd.node.plugins import load_role, role_names
for name in role_names():
    load_role(name)
print(sorted({"torch", "numpy", "asyncio"} & set(sys.modules)))
"""
OTHER_PROTOCOL = """
import p2pd.core.hello
p2pd.core.hello.PROTOCOL_VERSION += 1
"""


def play(founded: Founded, scene: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(LIMIT_S):
            async with open_bench(founded) as bench:
                await scene(bench)

    trio.run(main)


async def says(bench: Bench, name: str, words: str) -> None:
    async def said() -> bool:
        await trio.lowlevel.checkpoint()
        return words in bench.said(name)

    await until(f"{name} says {words!r}", said)


def last_line(bench: Bench, name: str) -> str:
    return bench.said(name).splitlines()[-1]


def test_i12_no_role_and_no_part_of_the_daemon_imports_torch_or_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_node_of_another_network_is_refused_with_both_names(tmp_path: Path, built: Built) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    founded, other = found(here, built), found(there, built)
    names = [one.setting.genesis.network.hex()[:10] for one in (other, founded)]

    async def scene(bench: Bench) -> None:
        await bench.start_seed()
        async with open_bench(other) as stranger:
            stranger.start("viewer", "viewer", seeds=bench.seeds)
            await says(stranger, "viewer", f"network {names[0]} is not {names[1]}: check the")
            assert stranger.said("viewer").count("WARNING") == 1
        assert (await bench.answers("seed"))["peers"] == []

    play(founded, scene)


def test_a_node_of_another_protocol_version_is_refused_with_both_versions(
    tmp_path: Path, built: Built
) -> None:
    patched = tmp_path / "patched"
    patched.mkdir()
    (patched / "sitecustomize.py").write_text(OTHER_PROTOCOL)
    words = (
        f"protocol version {PROTOCOL_VERSION + 1} does not work with {PROTOCOL_VERSION}: "
        "upgrade the older node"
    )

    async def scene(bench: Bench) -> None:
        await bench.start_seed()
        bench.start("viewer", "viewer", environment={"PYTHONPATH": str(patched)})
        await says(bench, "viewer", words)

    play(found(tmp_path, built), scene)


def test_a_node_whose_workload_is_another_refuses_and_prints_both_digests(
    tmp_path: Path, built: Built
) -> None:
    wanted = replace(built.revision.workload, source=bytes(range(32)))

    async def scene(bench: Bench) -> None:
        bench.start("trainer", "trainer")
        assert await bench.ended("trainer") == 1
        line = last_line(bench, "trainer")
        assert built.revision.workload.source.hex() in line
        assert wanted.source.hex() in line
        assert "install the revision's version" in line
        assert "Traceback" not in bench.said("trainer")

    play(found(tmp_path, built, workload=wanted), scene)


def test_a_workload_that_is_not_installed_ends_the_node_with_its_name(
    tmp_path: Path, built: Built
) -> None:
    wanted = replace(built.revision.workload, module="no_such_workload")

    async def scene(bench: Bench) -> None:
        bench.start("validator1", "validator")
        assert await bench.ended("validator1") == 1
        assert "workload 'no_such_workload' is not installed here" in last_line(bench, "validator1")

    play(found(tmp_path, built, workload=wanted), scene)


def test_a_workload_that_hangs_does_not_keep_a_node_from_leaving(
    tmp_path: Path, built: Built
) -> None:
    async def scene(bench: Bench) -> None:
        worker = await start_trainer(bench)
        os.kill(worker.pid, signal.SIGSTOP)
        start_s = trio.current_time()
        bench.nodes["trainer"].process.terminate()
        assert await bench.ended("trainer") == 0
        assert trio.current_time() - start_s < LEAVE_S
        await gone("the worker", [worker])

    play(found(tmp_path, built), scene)


def test_a_second_signal_ends_a_node_at_once(tmp_path: Path, built: Built) -> None:
    async def scene(bench: Bench) -> None:
        worker = await start_trainer(bench)
        process = bench.nodes["trainer"].process
        # Both at the same time, or it would have left before the second one comes.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            process.send_signal(number)
        assert await bench.ended("trainer") in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        assert " left" not in bench.said("trainer")
        await gone("the worker", [worker])

    play(found(tmp_path, built), scene)


async def start_trainer(bench: Bench) -> Process:
    """Its worker, which is importing torch."""
    bench.start("trainer", "trainer")

    async def worker() -> Process | None:
        await trio.lowlevel.checkpoint()
        found = worker_of(bench.nodes["trainer"].process.pid)
        return found if found is not None and "libtorch" in mapped(found.pid) else None

    found: Process = await until("a worker imports torch", worker)
    return found


def test_the_second_of_two_nodes_on_one_directory_names_the_first(
    tmp_path: Path, built: Built
) -> None:
    founded = found(tmp_path, built)

    async def scene(bench: Bench) -> None:
        first = bench.start("viewer", "viewer")
        await bench.answers("viewer")
        ran = await trio.to_thread.run_sync(p2pd, "run", "--config", tmp_path / "viewer.toml")
        assert ran.code == 1
        assert f"in use by process {first.process.pid}" in ran.err
        assert len(ran.lines) == 1
        assert first.running

    play(founded, scene)


def test_a_copied_identity_is_found_and_said(tmp_path: Path, built: Built) -> None:
    founded = found(tmp_path, built)

    async def scene(bench: Bench) -> None:
        await bench.start_seed()
        bench.start("viewer", "viewer")
        await says(bench, "viewer", "is linked")
        original = (await bench.answers("viewer"))["node"]
        shutil.copytree(
            founded.data_dir("viewer"),
            founded.data_dir("copy"),
            ignore=shutil.ignore_patterns("control", "ledger.count"),
        )
        bench.start("copy", "viewer")
        await says(bench, "copy", f"this identity is live at {original['address']}")
        assert bench.nodes["viewer"].running
        seen = (await bench.answers("seed"))["peers"]
        assert [peer["address"] for peer in seen if peer["linked"]]

    play(founded, scene)


Spoil = Callable[[Path], None]


def _truncate(data_dir: Path) -> None:
    with (data_dir / "ledger.sqlite").open("r+b") as file:
        file.truncate(5000)


def _replace_key(data_dir: Path) -> None:
    (data_dir / "key").write_text("garbage\n")


def _block_log(data_dir: Path) -> None:
    (data_dir / "log").unlink()
    (data_dir / "log").mkdir()


def _block_control(data_dir: Path) -> None:
    (data_dir / "control").mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_truncate, "ledger.sqlite is damaged"),
        (_replace_key, "is damaged: it must hold 64 hex digits"),
        (_block_log, "log: it is a directory"),
        (_block_control, "control: "),
    ],
)
def test_i10_a_data_directory_that_will_not_do_is_named_in_one_line(
    tmp_path: Path, built: Built, spoil: Spoil, words: str
) -> None:
    founded = found(tmp_path, built)

    async def once(bench: Bench) -> None:
        bench.start("viewer", "viewer")
        await bench.answers("viewer")
        bench.nodes["viewer"].process.terminate()
        assert await bench.ended("viewer") == 0

    play(founded, once)
    spoil(founded.data_dir("viewer"))
    refused(p2pd("run", "--config", tmp_path / "viewer.toml"), 1, words)


def refused(ran: Ran, code: int, words: str) -> None:
    assert ran.code == code, ran.err
    assert words in ran.lines[-1]
    assert "Traceback" not in ran.err
    assert [line for line in ran.lines[:-1] if " INFO " not in line] == []


@pytest.fixture
def config(tmp_path: Path, built: Built) -> Path:
    """Of a viewer that has never run."""
    founded = found(tmp_path, built)
    bench = Bench(founded)
    return bench.configure("viewer", "viewer")


def test_a_port_in_use_is_named_in_one_line(config: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        ran = p2pd("run", "--config", config, "--listen", listen)
    refused(ran, 2, f"overlay.listen {listen}")
    assert "in use" in ran.err


def test_a_node_that_must_join_and_meets_nobody_ends_in_time(tmp_path: Path, built: Built) -> None:
    bench = Bench(found(tmp_path, built))
    bench.seeds = ("127.0.0.1:1",)  # nobody listens there
    config = bench.configure("viewer", "viewer")
    text = config.read_text()
    config.write_text(text.replace("[network]\n", "[network]\njoin_s = 0.5\n"))
    refused(p2pd("run", "--config", config), 1, "nobody was met within 0.5 s (network.join_s)")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--genesis", "nowhere"], "cannot read the genesis"),
        (["--genesis", "/dev/null"], "a pipe or a device, not a file"),
        (["--record", "nowhere"], "cannot read the revision record"),
        (["--role", "potter"], "known roles: bootstrap"),
        (["--data-dir", "/dev/null/here"], "/dev/null"),
        (["--listen", "nonsense"], "overlay"),
    ],
)
def test_what_a_person_got_wrong_is_named_in_one_line(
    config: Path, options: list[str], words: str
) -> None:
    ran = p2pd("run", "--config", config, *options)
    assert ran.code in (1, 2)
    assert len(ran.lines) == 1
    assert words in ran.err


@pytest.mark.parametrize("content", [None, "[node\n", "[node]\nrole = 3\n", "\0\xff"])
def test_a_configuration_that_cannot_be_read_is_refused(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "node.toml"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    ran = p2pd("run", "--config", path)
    assert ran.code == 2
    assert str(path) in ran.lines[0]
    assert all(line.startswith("p2pd: ") for line in ran.lines)
