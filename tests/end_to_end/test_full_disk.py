"""A validator whose disk is full: a small file system of its own, in a mount namespace of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from p2pd.core.ids import PeerId
from p2pd.daemon.processes import NodeProcess, status_of
from p2pd.io.ledger import SqliteLedger
from p2pd.io.overlay import QuicTransport
from p2pd.node.chronicle import HEIGHT_BYTES
from p2pd.ports import Table
from tests.crash import standin
from tests.crash.fleet import built_standin, witness_transport
from tests.crash.witness import Witness
from tests.daemon.image import make_image
from tests.end_to_end.fleet_bench import Bench, Founded, Status, found, open_bench, until

MOUNT = (
    'key=$(cat "$1/key"); umask 077; mount -t tmpfs -o size=32m,mode=700 tmpfs "$1" '
    '&& echo "$key" > "$1/key" && exec "$2" -m p2pd.daemon.tied "$3" "$4"'
)
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -m p2pd.cli run --config "$3"'
STORE = "\n[store]\nreserve_bytes = 1000000\n"
LIMIT_S = 120.0
NAME = "validator1"


def can_mount() -> bool:
    return (
        os.geteuid() == 0
        and shutil.which("unshare") is not None
        and subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode
        == 0
    )


pytestmark = pytest.mark.skipif(
    not can_mount(), reason="mounting a small file system takes root and unshare(1)"
)


class FullDisk:
    """Seen from outside through the process that has it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.data_dir = bench.founded.data_dir(NAME)

    @property
    def inside(self) -> Path:
        pid = self.bench.nodes[NAME].process.pid
        return Path(f"/proc/{pid}/root{self.data_dir}")

    def start(self) -> None:
        bench = self.bench
        config = bench.configure(NAME, "validator")
        config.write_text(config.read_text() + STORE)
        arguments = (self.data_dir, sys.executable, os.getpid(), config)
        with bench.output(NAME).open("ab") as output:
            process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", MOUNT, "sh", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        bench.nodes[NAME] = NodeProcess(NAME, self.data_dir, process)

    def fill(self) -> None:
        """To the last byte."""
        with (self.inside / "filler").open("ab", buffering=0) as file:
            for size in (2**16, 2**12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    async def keep_full(self) -> None:
        """The store frees what it may, and the ledger shall not have that."""
        while True:
            self.fill()
            await trio.sleep(0.02)

    def free(self) -> None:
        (self.inside / "filler").unlink()

    async def status(self) -> Status | None:
        assert self.bench.nodes[NAME].running, self.bench.said(NAME)[-2000:]
        return await trio.to_thread.run_sync(status_of, self.inside)

    async def revision(self) -> Status:
        async def answered() -> Status | None:
            return await self.status()

        revision: Status = (await until("the validator answers", answered))["revisions"][0]
        return revision

    def remembered(self, directory: Path) -> tuple[int, Witness]:
        """The height that its ledger has, and the votes in it, read from a copy."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for path in self.inside.glob("ledger.sqlite*"):  # it runs: its count may be ahead
            shutil.copy(path, directory / path.name)
        witness = Witness(self.bench.founded.setting)
        with SqliteLedger(directory / "ledger.sqlite") as ledger:
            witness.read(ledger)
            last = ledger.last(Table.DECISIONS, self.bench.founded.setting.revision.id)
        assert last is not None
        return int.from_bytes(last[0][-HEIGHT_BYTES:]), witness


def play(founded: Founded, scene: Callable[[FullDisk, Witness], Awaitable[None]]) -> None:
    async def main() -> None:
        witness = Witness(founded.setting)
        transport = witness_transport(founded.setting)
        with trio.fail_after(LIMIT_S):
            async with open_bench(founded) as bench, trio.open_nursery() as nursery:
                await nursery.start(transport.run, witness)
                disk = FullDisk(bench)
                disk.start()
                await _join(disk, transport)
                await scene(disk, witness)
                nursery.cancel_scope.cancel()

    trio.run(main)


async def _join(disk: FullDisk, transport: QuicTransport) -> None:
    node = (await until("the validator answers", disk.status))["node"]
    await transport.connect(node["address"], PeerId(bytes.fromhex(node["peer"])))
    disk.bench.start("trainer", "trainer", seeds=(f"{node['peer']}@{node['address']}",))


def test_i10_a_validator_on_a_full_disk_says_so_once_votes_nothing_and_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in standin.install(tmp_path / "installed").items():
        monkeypatch.setenv(key, value)
    built = built_standin(tmp_path / "built")
    founded = found(tmp_path / "fleet", built, deadline_s=2.0, check_limit_s=2.0)

    async def scene(disk: FullDisk, witness: Witness) -> None:
        async def promoted() -> bool:
            return bool((await disk.revision())["heads"] >= 2)

        async def troubled() -> bool:
            status = await disk.status()
            return status is not None and any(
                line.startswith("ledger: ") for line in status["node"]["degraded"]
            )

        await until("two heads are promoted", promoted)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.keep_full)
            await until("the validator is degraded", troubled)
            await trio.sleep(3.0)  # past a deadline: it would have voted by now
            said_on_wire = set(witness.said)
            height, remembered = disk.remembered(tmp_path / "copy")
            assert {place for place in said_on_wire if place[1] > height} <= set(remembered.said)
            nursery.cancel_scope.cancel()
        disk.free()

        async def goes_on() -> bool:
            return bool((await disk.revision())["height"] >= height + 3)

        await until("the validator goes on", goes_on)
        degraded = (await disk.status() or {})["node"]["degraded"]
        assert not [line for line in degraded if line.startswith(("ledger: ", "store: "))]
        assert witness.contradictions() == []
        assert witness.sources["wire"] > 0
        said = disk.bench.said(NAME)
        assert said.count("ledger.sqlite: the disk is full") == 1, said
        assert said.count("ledger: there is room again") == 1
        assert "Traceback" not in said

    play(founded, scene)


def test_a_node_on_a_read_only_file_system_says_so_in_one_line(tmp_path: Path) -> None:
    image, _ = make_image(tmp_path)
    copy = image.copy(tmp_path / "copy")
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", copy.data_dir, sys.executable, copy.config],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr == (
        f"p2pd: {copy.data_dir / 'lock'}: the file system is read-only: choose another directory, "
        "or remount it\n"
    )
